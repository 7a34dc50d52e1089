import random
from itertools import pairwise


def turns(tasks):
    return min(range(len(tasks)), key=lambda place: len(tasks[place][1]))


def turns_by_sorting(tasks):
    return sorted((len(times), place) for place, (_, times) in enumerate(tasks))[0][1]


def turns_by_counting(tasks):
    for rounds in range(1, 1000):
        for place, (_, times) in enumerate(tasks):
            if len(times) == rounds:
                return place
    return None


def turns_of_the_last(tasks):
    return min(reversed(range(len(tasks))), key=lambda place: len(tasks[place][1]))


def turns_of_the_slowest(tasks):
    return max(range(len(tasks)), key=lambda place: tasks[place][0] * tasks[place][1][-1])


def turns_of_the_most(tasks):
    return max(range(len(tasks)), key=lambda place: len(tasks[place][1]))


def turns_by_name(tasks):
    return sum(len(times) - 1 for _, times in tasks) % len(tasks)


def turns_as_rounds(tasks):
    return min(len(times) for _, times in tasks)


def gain(count, times, alpha, window):
    rounds = len(times) - 1
    lately = times[-min(window, rounds) - 1 :]
    gained = (lately[0] - lately[-1]) / (len(lately) - 1)
    return count * (alpha * gained + (1 - alpha) * times[-1] / rounds)


def gain_by_steps(count, times, alpha, window):
    falls = [a - b for a, b in pairwise(times)][-window:]
    hope = times[-1] / (len(times) - 1)
    return count * alpha * sum(falls) / len(falls) + count * (1 - alpha) * hope


def gain_in_one_line(count, times, alpha, window):
    t, b = len(times) - 1, min(window, len(times) - 1)
    return (alpha * (times[t - b] - times[t]) / b + (1 - alpha) * times[t] / t) * count


def gain_without_count(count, times, alpha, window):
    return gain(1, times, alpha, window)


def gain_of_the_last_round(count, times, alpha, window):
    return gain(count, times, alpha, 1)


def gain_of_all_rounds(count, times, alpha, window):
    return gain(count, times, alpha, len(times))


def gain_by_the_window(count, times, alpha, window):
    back = min(window, len(times) - 1)
    gained = (times[-1 - back] - times[-1]) / window
    return count * (alpha * gained + (1 - alpha) * times[-1] / (len(times) - 1))


def gain_the_other_way_round(count, times, alpha, window):
    return gain(count, times, 1 - alpha, window)


def gain_by_numbers(count, times, alpha, window):
    return gain(count, times, alpha, window) + count * (1 - alpha) * (
        times[-1] / len(times) - times[-1] / (len(times) - 1)
    )


def gain_below_zero(count, times, alpha, window):
    return -gain(count, times, alpha, window)


def gain_as_text(count, times, alpha, window):
    return str(gain(count, times, alpha, window))


def _fresh(tasks, least=1):
    return [place for place, (_, times) in enumerate(tasks) if len(times) <= least]


def choose(tasks, left):
    """The gradient that hardly hopes."""
    fresh = _fresh(tasks)
    if fresh:
        return fresh[0]
    return max(range(len(tasks)), key=lambda place: gain(*tasks[place], 0.95, 2))


def choose_by_falls(tasks, left):
    """Two rounds each; then the next fall is to the last as the last to the one before."""
    fresh = _fresh(tasks, 2)
    if fresh:
        return fresh[0]

    def fall(place):
        count, times = tasks[place]
        last, before = times[-2] - times[-1], times[-3] - times[-2]
        return count * last * min(1.0, last / before if before else 0.0)

    return max(range(len(tasks)), key=fall)


def choose_greedily(tasks, left):
    fresh = _fresh(tasks)
    if fresh:
        return fresh[0]
    return max(range(len(tasks)), key=lambda n: tasks[n][0] * (tasks[n][1][-2] - tasks[n][1][-1]))


def choose_in_turns(tasks, left):
    return turns(tasks)


def choose_by_gradient(tasks, left):
    fresh = _fresh(tasks)
    return fresh[0] if fresh else max(range(len(tasks)), key=lambda n: gain(*tasks[n], 0.2, 3))


def choose_the_slowest(tasks, left):
    return turns_of_the_slowest(tasks)


def choose_at_random(tasks, left):
    return random.Random(left).randrange(len(tasks))


def choose_without_counts(tasks, left):
    return choose([(1, times) for _, times in tasks], left)


def choose_what_is_not_there(tasks, left):
    return len(tasks)


def choose_a_task(tasks, left):
    return tasks[0]


RIGHT = {
    "turns": [turns, turns_by_sorting, turns_by_counting],
    "gain": [gain, gain_by_steps, gain_in_one_line],
    "choose": [choose, choose_by_falls, choose_greedily],
}
WRONG = {
    "turns": [
        (turns_of_the_last, "right is"),
        (turns_of_the_slowest, "right is"),
        (turns_of_the_most, "right is"),
        (turns_by_name, "right is"),
        (turns_as_rounds, "right is"),
    ],
    "gain": [
        (gain_without_count, "the expected gain is"),
        (gain_of_the_last_round, "the expected gain is"),
        (gain_of_all_rounds, "the expected gain is"),
        (gain_by_the_window, "the expected gain is"),
        (gain_the_other_way_round, "the expected gain is"),
        (gain_by_numbers, "the expected gain is"),
        (gain_below_zero, "the expected gain is"),
        (gain_as_text, "the expected gain is"),
    ],
    "choose": [
        (choose_in_turns, "of the seconds that the round robin reaches"),
        (choose_by_gradient, "of the seconds that the gradient reaches"),
        (choose_the_slowest, "of the seconds that the"),
        (choose_at_random, "of the seconds that the"),
        (choose_without_counts, "of the seconds that the"),
        (choose_what_is_not_there, "a place from 0 to 11 is wanted, not 12"),
        (choose_a_task, "a place from 0 to 11 is wanted"),
    ],
}
