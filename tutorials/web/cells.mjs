// Cells that run: each listing of a lesson gets buttons, an editor and a place for what it shows.
//
// Python starts with the first cell that is run, in a worker. A cell runs after all cells above it
// that have not run yet. "Stop" ends the worker, and with it all variables. What a student writes is
// kept by the browser, lesson by lesson.

const about = JSON.parse(document.querySelector('meta[name="minitensor-lesson"]').content);
const base = new URL("./", import.meta.url).href;
const KEY = `minitensor-lesson-${about.lesson}`;
const COMPILER = "minitensor-compiler";
const MOST_SHOWN = 200_000; // characters of a cell's output

// ---- what is kept: one entry for each lesson, for two may be open at once

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

class Kept {
  constructor() {
    this.lesson = { format: 1, cells: {}, right: [] };
    let text = null;
    try {
      text = localStorage.getItem(KEY);
      if (text !== null) this.lesson = this.checked(JSON.parse(text));
    } catch (failure) {
      if (text === null) tell("This browser keeps nothing here: what you write is gone with the page.");
      else this.setAside(text);
    }
  }

  checked(found) {
    const { format, cells, right, tasks } = found ?? {};
    const texts = isObject(cells) ? [...Object.values(cells), tasks ?? { text: "" }] : [null];
    const written = texts.every((one) => isObject(one) && typeof one.text === "string");
    if (format !== 1 || !written || !Array.isArray(right)) throw new Error("another format");
    return found;
  }

  setAside(text) {
    tell("What was kept of your work in this lesson cannot be read. Nothing of it is lost: ", [
      "Download it",
      () => download(`${KEY}-damaged.json`, text),
    ]);
    this.write(`${KEY}-damaged-${Date.now()}`, text);
  }

  change(action) {
    action(this.lesson);
    this.write(KEY, JSON.stringify(this.lesson));
  }

  write(key, text) {
    try {
      localStorage.setItem(key, text);
    } catch (failure) {
      if (!this.full) tell("The browser has no room to keep what you write; download it before you leave.");
      this.full = true;
    }
  }

  get compiler() {
    try {
      return localStorage.getItem(COMPILER) === "yes";
    } catch (failure) {
      return false;
    }
  }

  set compiler(wanted) {
    this.write(COMPILER, wanted ? "yes" : "no");
  }
}

function download(name, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/plain" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---- parts of the page

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const button = (text, action, label = text) =>
  element("button", { type: "button", class: "mt-button", "aria-label": label, onclick: action }, text);

const notes = element("div", { class: "mt-notes", role: "status", "aria-live": "polite" });

function tell(text, action) {
  const note = element("p", {}, text);
  if (action) note.append(button(action[0], action[1]));
  notes.append(note);
}

// ---- Python

class Python {
  constructor() {
    this.id = 0;
    this.worker = null;
    this.running = null; // {id, show, resolve}
  }

  start() {
    if (this.ready) return this.ready;
    this.worker = new Worker(new URL("worker.mjs", base), { type: "module" });
    this.ready = new Promise((resolve, reject) => (this.started = { resolve, reject }));
    this.worker.onmessage = ({ data }) => this.heard(data);
    this.worker.onerror = (event) => {
      event.preventDefault?.();
      this.broken(event.message || "the files of Python cannot be loaded");
    };
    const { pyodide, wheels, archive } = about;
    const compiler = kept.compiler && about.compiler;
    this.worker.postMessage({ kind: "start", base, pyodide, wheels, archive, compiler });
    return this.ready;
  }

  heard(message) {
    const { running } = this;
    if (message.kind === "status") status(message.text);
    else if (message.kind === "ready") {
      this.started.resolve();
      this.started = null;
      offline(message.loaded);
    } else if (message.kind === "broken") this.broken(message.text);
    else if (running && message.id === running.id) {
      if (message.kind === "show") running.show(message.what, message.text);
      else {
        this.running = null;
        running.resolve(message.value);
      }
    }
  }

  broken(text) {
    const lost = /memory|allocation/i.test(text) ? "Python has no memory left and has ended" : "Python has ended";
    this.end(`${lost}: ${text.split("\n")[0]}. Your text is kept; run a cell to start Python anew.`);
  }

  end(reason) {
    this.worker?.terminate();
    const { running, started } = this;
    this.ready = this.running = this.worker = this.started = null;
    for (const cell of cells) cell.done = false;
    const failure = new Error(reason);
    if (!started && !running) tell(reason);
    started?.reject(failure);
    running?.reject(failure);
  }

  async ask(kind, request, show) {
    await this.start();
    const id = ++this.id;
    const answer = new Promise((resolve, reject) => (this.running = { id, show, resolve, reject }));
    this.worker.postMessage({ kind, id, ...request });
    return answer;
  }
}

// ---- the editor, which is loaded when the first cell is edited

let editing = null;

function editor() {
  editing ??= Promise.all([
    import("@codemirror/state"),
    import("@codemirror/view"),
    import("@codemirror/commands"),
    import("@codemirror/language"),
    import("@codemirror/legacy-modes/mode/python"),
    import("@lezer/highlight"),
  ]);
  return editing;
}

async function edited(parent, text, label, changed) {
  const [{ EditorState }, view, commands, language, { python }, { tags }] = await editor();
  const { EditorView, keymap, lineNumbers } = view;
  return new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        commands.history(),
        language.indentUnit.of("    "),
        language.bracketMatching(),
        language.StreamLanguage.define(python),
        language.syntaxHighlighting(language.HighlightStyle.define(classes(tags))),
        EditorView.contentAttributes.of({ "aria-label": label }),
        keymap.of([commands.indentWithTab, ...commands.defaultKeymap, ...commands.historyKeymap]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    }),
  });
}

function classes(tags) {
  const of = { keyword: "keyword", string: "string", number: "number", comment: "comment", meta: "meta" };
  return Object.entries(of).map(([name, last]) => ({ tag: tags[name], class: `mt-${last}` }));
}

// ---- cells

class Code {
  // A listing that can be edited: the code of a cell, or the file with the tasks.
  constructor(box, label, stored, store) {
    this.box = box;
    const listing = "code" in box.dataset && ":scope > div.highlight, :scope > pre";
    this.listing = listing ? box.querySelector(listing) : null;
    this.original = this.listing?.querySelector("code").textContent.replace(/\n$/, "") ?? "";
    this.label = label;
    this.store = store;
    this.text = this.original;
    if (this.listing && stored && typeof stored.text === "string") {
      this.text = stored.text;
      if (this.text !== this.original) this.edit();
      if (stored.was !== this.original) tell(`The lesson has changed since you edited ${label}; your text is kept, and "Reset" takes the new one.`);
    }
  }

  async edit(focus = false) {
    if (this.view) return;
    this.view = "on its way";
    const host = element("div", { class: "mt-editor" });
    try {
      this.view = await edited(host, this.text, this.label, (text) => {
        this.text = text;
        this.store({ text, was: this.original });
      });
    } catch (failure) {
      this.view = null;
      return tell(`The editor cannot be loaded: ${failure.message}`);
    }
    const { doc } = this.view.state;
    if (doc.toString() !== this.text) this.view.dispatch({ changes: { from: 0, to: doc.length, insert: this.text } });
    this.listing.hidden = true;
    this.listing.after(host);
    if (focus) this.view.focus();
  }

  replace(text) {
    this.text = text;
    this.store(text === this.original ? null : { text, was: this.original });
    if (this.view?.state) this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
    else this.edit();
  }

  reset() {
    if (this.view?.state) {
      this.view.destroy();
      this.view.dom.parentElement?.remove();
      document.querySelectorAll(".mt-editor:empty").forEach((host) => host.remove());
      this.view = null;
    }
    this.listing.hidden = false;
    this.text = this.original;
    this.store(null);
  }
}

class Cell {
  constructor(box, number) {
    this.number = number;
    this.name = `${number + 1}`;
    this.box = box;
    this.tail = box.dataset.tail;
    this.done = false;
    const store = (text) =>
      kept.change((lesson) => {
        if (text) lesson.cells[number] = text;
        else delete lesson.cells[number];
        this.done = false;
      });
    this.code = new Code(box, `cell ${this.name}`, kept.lesson.cells[number], store);
    this.before = [...box.children].filter((child) => child !== this.code.listing && !child.matches(".mt-editor"));
    this.output = element("div", { class: "mt-output", role: "region", "aria-label": `output of cell ${this.name}` });
    this.output.hidden = true;
    if (this.code.listing) {
      this.runs = button("▶ Run", () => (runner.at ? runner.stop() : runner.run(this)), `run cell ${this.name}`);
      const edit = button("Edit", () => this.code.edit(true), `edit cell ${this.name}`);
      const reset = button("Reset", () => this.reset(), `reset cell ${this.name}`);
      box.append(element("div", { class: "mt-tools" }, this.runs, edit, reset));
    }
    box.append(this.output);
  }

  get source() {
    return [this.code.text, this.tail].filter(Boolean).join("\n");
  }

  reset() {
    this.code.reset();
    this.output.hidden = true;
    for (const part of this.before) part.hidden = false;
    this.done = false;
  }

  clear() {
    this.output.replaceChildren();
    this.output.hidden = false;
    this.shown = 0;
    for (const part of this.before) part.hidden = true;
  }

  show(what, text) {
    if (what === "svg" || what === "html") {
      const drawn = new DOMParser().parseFromString(text, "text/html");
      drawn.querySelectorAll("script").forEach((script) => script.remove());
      return this.output.append(element("div", { class: "mt-drawn" }, ...drawn.body.childNodes));
    }
    if (this.shown > MOST_SHOWN) return;
    this.shown += text.length;
    const cut = this.shown > MOST_SHOWN ? "\n… (more is not shown)\n" : text;
    const last = this.output.lastElementChild;
    if (last?.dataset.what === what) last.append(cut);
    else this.output.append(element("pre", { "data-what": what, tabindex: "0" }, cut));
  }
}

// ---- running

const runner = {
  at: null,

  async run(cell) {
    for (const one of cells) {
      const wanted = one === cell || (!one.done && one.number < cell.number);
      const follows = one.number > cell.number && !one.code.listing && !one.done;
      if (one.number > cell.number && !follows) break; // pictures behind the cell belong to it
      if ((wanted || follows) && !(await this.step(one))) return;
    }
  },

  async step(cell) {
    this.mark(cell);
    try {
      await python.start();
      cell.clear();
      status(`cell ${cell.name} is running`);
      const request = { source: cell.source, name: cell.name };
      cell.done = await python.ask("run", request, (what, text) => cell.show(what, text));
      status(cell.done ? `cell ${cell.name} has run` : `cell ${cell.name} has ended with an error`);
      return cell.done;
    } catch (failure) {
      if (cell.output.hidden) cell.clear();
      cell.show("error", `${failure.message}\n`);
      status("");
      return false;
    } finally {
      this.mark(null);
    }
  },

  mark(cell) {
    this.at = cell;
    for (const one of cells.filter((found) => found.runs)) {
      one.runs.textContent = cell ? "■ Stop" : "▶ Run";
      one.runs.setAttribute("aria-label", cell ? "stop" : `run cell ${one.name}`);
      one.box.classList.toggle("mt-running", one === cell);
    }
  },

  stop() {
    python.end("Stopped. Python and its variables are gone; a cell that you run starts it anew, with all cells above.");
  },
};

const statusLine = element("div", { class: "mt-status", role: "status", "aria-live": "polite" });
statusLine.hidden = true;

function status(text) {
  statusLine.textContent = text;
  statusLine.hidden = !text;
}

// ---- tasks

class Tasks {
  constructor(box) {
    const store = (text) =>
      kept.change((lesson) => {
        if (text) lesson.tasks = text;
        else delete lesson.tasks;
      });
    this.code = new Code(box, about.file, kept.lesson.tasks, store);
    this.verdicts = element("ul", { class: "mt-verdicts", "aria-live": "polite" });
    this.checks = button("Check", () => (runner.at ? runner.stop() : this.check()));
    const open = element("input", { type: "file", accept: ".py", class: "mt-file", "aria-label": `open a file as ${about.file}` });
    open.addEventListener("change", async () => open.files[0] && this.code.replace(await open.files[0].text()));
    box.append(
      element(
        "div",
        { class: "mt-tools" },
        this.checks,
        button("Edit", () => this.code.edit(true), `edit ${about.file}`),
        button("Reset", () => this.code.reset(), `reset ${about.file}`),
        button(`Download ${about.file}`, () => download(about.file, `${this.code.text}\n`)),
        open,
      ),
      this.verdicts,
    );
    this.list(about.tasks.map((task) => ({ task, lacking: kept.lesson.right.includes(task) ? "" : null })));
  }

  list(verdicts) {
    const words = ({ lacking }) => (lacking === null ? "not checked yet" : lacking === "" ? "right" : lacking);
    this.verdicts.replaceChildren(
      ...verdicts.map((verdict) => {
        const mark = verdict.lacking === "" ? "✓" : verdict.lacking === null ? "·" : "✗";
        const line = element("li", { "data-task": verdict.task }, `${mark} `, element("code", {}, verdict.task), `: ${words(verdict)}`);
        if (verdict.script) line.append(element("details", {}, element("summary", {}, "a script that shows it"), element("pre", {}, verdict.script)));
        return line;
      }),
    );
  }

  async check() {
    runner.mark(this);
    this.checks.textContent = "■ Stop";
    try {
      await python.start();
      status("your answers are judged");
      const request = { lesson: about.lesson, answers: this.code.text };
      const verdicts = JSON.parse(await python.ask("check", request, (what, text) => status(text)));
      this.list(verdicts);
      kept.change((lesson) => (lesson.right = verdicts.filter((v) => v.lacking === "").map((v) => v.task)));
      status("");
    } catch (failure) {
      tell(failure.message);
      status("");
    } finally {
      runner.mark(null);
      this.checks.textContent = "Check";
    }
  }
}

// ---- a C compiler, of 105 MB, which a reader may ask for

function offerCompiler() {
  const wanted = element("input", { type: "checkbox", id: "mt-compiler" });
  wanted.checked = kept.compiler;
  wanted.addEventListener("change", () => {
    kept.compiler = wanted.checked;
    if (python.worker) python.end("Python starts anew, for it has another compiler now.");
  });
  const text = "Compile to WebAssembly with a C compiler (105 MB, once); without it the interpreter runs";
  notes.before(element("p", { class: "mt-compiler" }, wanted, " ", element("label", { for: "mt-compiler" }, text)));
}

// ---- the page

const python = new Python();
const first = document.querySelector(".mt-cell");
first?.before(notes);
document.body.append(statusLine);
for (const listing of document.querySelectorAll("pre")) listing.tabIndex = 0; // keys scroll it
const kept = new Kept();
let cells = [];
let tasks = [];

if (typeof WebAssembly === "undefined" || typeof Worker === "undefined") {
  tell("The cells of this page need WebAssembly, which this browser has not, or has switched off. The text is all here, and minitensor course start writes the lesson as a file that you can run.");
} else {
  cells = [...document.querySelectorAll(".mt-cell")].map((box, number) => new Cell(box, number));
  if (about.compiler) offerCompiler();
  tasks = [...document.querySelectorAll(".mt-tasks")].map((box) => new Tasks(box));
  const { imports } = JSON.parse(document.querySelector('script[type="importmap"]').textContent);
  const editor = Object.values(imports).map((path) => new URL(path, location).href);
  const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
  offline([location.href.split("#")[0], new URL("worker.mjs", base).href, ...loaded, ...editor]);
}

async function offline(urls) {
  // Keep files for a visit without a network: those that came before `offline.js` was at work.
  try {
    await navigator.serviceWorker.register(new URL("../offline.js", base));
    const kept = await caches.open("minitensor-lessons");
    for (const url of new Set(urls)) {
      if (url.startsWith(location.origin) && !(await kept.match(url))) await kept.add(url);
    }
  } catch {
    // no https, or no room: the page works, and loads again the next time
  }
}

export { cells, kept, python, runner, tasks };
