from minitensor.graph import RULES, Rule, Var, call

NAMES = ("relu", "sigmoid", "tanh", "exp", "neg")


def _order(node):
    rank = len(node.result.shape)
    axes = node.attribute("axes")
    return tuple(reversed(range(rank))) if axes is None else tuple(a % rank for a in axes)


def _rules(undoes, names=NAMES):
    def rule(name):
        def make(match, made):
            if not undoes(match.nodes["inner"], match.node):
                return None
            return getattr(made, name)(match.x)

        pattern = call("transpose", call(name, call("transpose", Var("x"), name="inner"), name="f"))
        return Rule(f"{name} between transposes", pattern, make, "the same bits")

    return [rule(name) for name in names]


def _undone(inner, outer):
    first, second = _order(inner), _order(outer)
    return [first[axis] for axis in second] == list(range(len(first)))


def rules():
    return _rules(_undone)


def rules_that_move():
    """The second transpose moves in front of the operator; two next to each other go."""

    def move(name):
        def make(match, made):
            return getattr(made, name)(made.node(match.node, match.x))

        return Rule(f"before {name}", call("transpose", call(name, Var("x"))), make)

    def both(match, made):
        return match.x if _undone(match.nodes["inner"], match.node) else None

    pair = Rule("pair", call("transpose", call("transpose", Var("x"), name="inner")), both)
    return (pair, *(move(name) for name in NAMES))


def rules_by_index():
    def undoes(inner, outer):
        first, second = _order(inner), _order(outer)
        return all(first.index(place) == axis for place, axis in enumerate(second))

    return [*RULES, *_rules(undoes)]


def rules_for_any_pair():
    return _rules(lambda inner, outer: True)


def rules_for_shapes_that_fit():
    def fit(inner, outer):
        return sorted(outer.result.shape) == sorted(inner.result.shape)

    return _rules(fit)


def rules_for_equal_axes():
    return _rules(lambda inner, outer: _order(inner) == _order(outer))


def rules_without_defaults():
    def undoes(inner, outer):
        first, second = inner.attribute("axes", ()), outer.attribute("axes", ())
        rank = len(first)
        return rank > 0 and [first[axis % rank] % rank for axis in second] == list(range(rank))

    return _rules(undoes)


def rules_without_negative_axes():
    def undoes(inner, outer):
        rank = len(inner.result.shape)
        reverse = tuple(range(rank))[::-1]
        first = inner.attribute("axes") or reverse
        second = outer.attribute("axes") or reverse
        return [first[axis] for axis in second] == list(range(rank))

    return _rules(undoes)


def rules_for_relu():
    return _rules(_undone, ["relu"])


def rules_that_lose_the_operator():
    def make(match, made):
        return match.x if _undone(match.nodes["inner"], match.node) else None

    inner = call("transpose", Var("x"), name="inner")
    return [Rule("lost", call("transpose", call(name, inner)), make) for name in NAMES]


def rules_for_softmax_too():
    def make(match, made):
        return made.softmax(match.x) if _undone(match.nodes["inner"], match.node) else None

    pattern = call("transpose", call("softmax", call("transpose", Var("x"), name="inner")))
    return [*rules(), Rule("softmax", pattern, make)]


def rules_of_the_library():
    return list(RULES)


def one_rule():
    return rules()[0]


def meets(users, outputs):
    found, depth = {}, {}
    for name in reversed(list(users)):
        one = None
        if name not in outputs:
            first, *others = users[name]
            one = first
            for other in others:
                while one != other and one is not None and other is not None:
                    if depth[one] >= depth[other]:
                        one = found[one]
                    else:
                        other = found[other]
                if one != other:
                    one = None
        found[name] = one
        depth[name] = 0 if one is None else depth[one] + 1
    return found


def meets_by_lists(users, outputs):
    """The chain of post-dominators of each node; the first that all users' chains have."""
    chains = {}
    for name in reversed(list(users)):
        every = [] if name in outputs else [chains[user] for user in users[name]]
        common = [n for n in (every or [[]])[0] if all(n in one for one in every)]
        chains[name] = [name, *common]
    return {name: chains[name][1] if len(chains[name]) > 1 else None for name in users}


def meets_by_removal(users, outputs):
    """m post-dominates n if no output can be reached without m."""
    order = list(users)

    def reaches(name, without):
        pending, seen = [name], set()
        while pending:
            one = pending.pop()
            if one in outputs:
                return True
            new = [u for u in users[one] if u != without and u not in seen]
            seen.update(new)
            pending += new
        return False

    def first(name):
        pending, below = [name], set()
        while pending:
            for user in users[pending.pop()]:
                if user not in below:
                    below.add(user)
                    pending.append(user)
        if name in outputs:
            return None
        ordered = [n for n in order if n in below]
        return next((n for n in ordered if not reaches(name, n)), None)

    return {name: first(name) for name in order}


def meets_in_one_reader(users, outputs):
    return {n: r[0] if len(r) == 1 and n not in outputs else None for n, r in users.items()}


def meets_in_the_last_reader(users, outputs):
    order = list(users)
    return {
        n: max(r, key=order.index) if r and n not in outputs else None for n, r in users.items()
    }


def meets_without_outputs(users, outputs):
    return meets(users, [name for name, readers in users.items() if not readers])


def meets_anywhere_below(users, outputs):
    """A node that all users reach, though not by all paths."""
    order = list(users)
    below = {}
    for name in reversed(order):
        below[name] = {name}.union(*(below[user] for user in users[name]))
    found = {}
    for name in order:
        common = set.intersection(*(below[u] for u in users[name])) if users[name] else set()
        found[name] = None if name in outputs else min(common, key=order.index, default=None)
    return found


def meets_at_the_end(users, outputs):
    found = meets(users, outputs)

    def last(name):
        return name if found[name] is None else last(found[name])

    return {name: None if one is None else last(one) for name, one in found.items()}


def meets_itself(users, outputs):
    return {name: name if one is None else one for name, one in meets(users, outputs).items()}


def meets_without_none(users, outputs):
    return {name: one for name, one in meets(users, outputs).items() if one is not None}


def _between(users, name, sink):
    found, pending = set(), list(users[name])
    while pending:
        one = pending.pop()
        if one != sink and one not in found:
            found.add(one)
            pending += users[one]
    return found


def _grown(kinds, users, outputs, meets_in=meets, passes=(True, False), look=True):
    meeting = meets_in(users, outputs)
    group = {name: {name} for name in kinds}

    def has(name):
        return any(kinds[n] == "product" for n in group[name])

    for first in passes:
        for name in kinds:
            sink = meeting[name]
            if sink is None or sink in group[name] or has(name) != first:
                continue
            middle = _between(users, name, sink)
            if has(sink) or (look and any(map(has, middle))):
                continue
            joined = set().union(*(group[one] for one in (name, sink, *middle)))
            for one in joined:
                group[one] = joined
    return [sorted(one) for one in {id(g): g for g in group.values()}.values()]


def groups(kinds, users, outputs):
    return _grown(kinds, users, outputs)


def groups_by_numbers(kinds, users, outputs):
    """Each node has the number of its group; two groups join by giving one of them the other's."""
    meeting = meets_by_lists(users, outputs)
    number = {name: n for n, name in enumerate(kinds)}
    heavy = {number[name] for name, kind in kinds.items() if kind == "product"}
    for wanted in (True, False):
        for name in kinds:
            sink = meeting[name]
            if sink is None or number[sink] == number[name]:
                continue
            if (number[name] in heavy) != wanted:
                continue
            others = {number[one] for one in (*_between(users, name, sink), sink)}
            if not others & heavy:
                number = {n: number[name] if m in others else m for n, m in number.items()}
    return [tuple(n for n in kinds if number[n] == m) for m in dict.fromkeys(number.values())]


def groups_as_sets(kinds, users, outputs):
    return [set(one) for one in reversed(_grown(kinds, users, outputs, meets_by_removal))]


def groups_of_one_reader(kinds, users, outputs):
    return _grown(kinds, users, outputs, meets_in_one_reader)


def groups_with_outputs_inside(kinds, users, outputs):
    return _grown(kinds, users, outputs, meets_without_outputs)


def groups_from_the_cheap_ones(kinds, users, outputs):
    return _grown(kinds, users, outputs, passes=(False, True))


def groups_of_products_only(kinds, users, outputs):
    return _grown(kinds, users, outputs, passes=(True,))


def groups_that_look_at_the_end_only(kinds, users, outputs):
    return _grown(kinds, users, outputs, look=False)


def groups_of_all(kinds, users, outputs):
    return [list(kinds)]


def groups_of_each(kinds, users, outputs):
    return [[name] for name in kinds]


def groups_without_single_nodes(kinds, users, outputs):
    return [one for one in groups(kinds, users, outputs) if len(one) > 1]


def groups_as_text(kinds, users, outputs):
    return ", ".join(kinds)


RIGHT = {
    "rules": [rules, rules_that_move, rules_by_index],
    "meets": [meets, meets_by_lists, meets_by_removal],
    "groups": [groups, groups_by_numbers, groups_as_sets],
}
WRONG = {
    "rules": [
        (rules_for_any_pair, "has another result after the rules"),
        (rules_for_shapes_that_fit, "has another result after the rules"),
        (rules_for_equal_axes, "2 transposes after the rules; 0 are enough"),
        (rules_without_defaults, "2 transposes after the rules; 0 are enough"),
        (rules_without_negative_axes, "transposes after the rules; 0 are enough"),
        (rules_for_relu, "2 transposes after the rules"),
        (rules_that_lose_the_operator, "has another result after the rules"),
        (rules_for_softmax_too, "softmax -1, transpose (1, 0) of x"),
        (rules_of_the_library, "2 transposes after the rules"),
        (one_rule, "expected a list of mt.graph.Rule"),
    ],
    "meets": [
        (meets_in_one_reader, "meet in z, and the answer is None"),
        (meets_in_the_last_reader, "does not pass it"),
        (meets_without_outputs, "y has no immediate post-dominator"),
        (meets_anywhere_below, "does not pass it"),
        (meets_at_the_end, "it is further away"),
        (meets_itself, "it comes after the node itself"),
        (meets_without_none, "a dictionary with a value for each node"),
    ],
    "groups": [
        (groups_of_one_reader, "a and b are one kernel, a, b, c, d"),
        (groups_with_outputs_inside, "are both needed outside of it"),
        (groups_from_the_cheap_ones, "and must not be"),
        (groups_of_products_only, "are one kernel"),
        (groups_that_look_at_the_end_only, "must not be"),
        (groups_of_all, "and must not be: when the turn of a comes, the group of b has a product"),
        (groups_of_each, "are one kernel"),
        (groups_without_single_nodes, "each node has to be in one group"),
        (groups_as_text, "a list of lists of names"),
    ],
}
