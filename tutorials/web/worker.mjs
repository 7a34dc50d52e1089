// Python, in a thread of its own: the page stays alive while a cell runs, and can end it.
//
// To it:   {kind: "start", base, pyodide, wheels, archive, compiler}, {kind: "run", id, source, name},
//          {kind: "check", id, lesson, answers}
// From it: {kind: "status", text}, {kind: "ready", loaded}, {kind: "show", id, what, text},
//          {kind: "done", id, value}, {kind: "broken", text}

const SITE = "/lib/python3.12/site-packages";
const COMPILED = "minitensor-compiled";
let python, tab, unkept, current = 0;

const say = (message) => self.postMessage(message);

// ---- what a cell shows: printed text in few pieces, and not without end, or the page would stand

const MOST = 250_000; // characters that one cell prints; the page says that there were more
const WAIT = 100; // milliseconds between two pieces
let printed = 0, pending = "", sent = 0;

function flush() {
  if (pending) say({ kind: "show", id: current, what: "text", text: pending });
  pending = "";
  sent = performance.now();
}

function print(text) {
  if (printed > MOST) return;
  printed += text.length;
  pending += text;
  if (printed > MOST || performance.now() - sent > WAIT) flush();
}

function show(what, text) {
  if (what === "text") return print(text);
  flush();
  say({ kind: "show", id: current, what, text });
}

async function bytes(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`the server answers ${answer.status} for ${url}`);
  return new Uint8Array(await answer.arrayBuffer());
}

function stream() {
  const decoder = new TextDecoder();
  return {
    write(buffer) {
      print(decoder.decode(buffer, { stream: true }));
      return buffer.length;
    },
  };
}

async function start({ base, pyodide, wheels, archive, compiler }) {
  say({ kind: "status", text: "Python is on its way (20 MB, the first time)" });
  const at = (path) => new URL(path, base).href;
  const { loadPyodide } = await import(at(`${pyodide}/pyodide.mjs`));
  const archives = Promise.all([...wheels.slice(1), archive].map((path) => bytes(at(path))));
  archives.catch(() => 0); // it is awaited below
  const compiled = await kept(at(archive));
  python = await loadPyodide({ indexURL: at(`${pyodide}/`) });
  python.setStdout(stream());
  python.setStderr(stream());
  say({ kind: "status", text: "numpy and minitensor are loaded" });
  await python.loadPackage(at(wheels[0]), { messageCallback: () => 0 });
  python.globals.set("archives", [...(await archives), ...compiled]);
  python.runPython(`
import io, sys, zipfile
sys.dont_write_bytecode = False # what importing compiles is kept
for data in archives:
    zipfile.ZipFile(io.BytesIO(data.to_bytes())).extractall("${SITE}")
del archives, data
import importlib; importlib.invalidate_caches()`);
  tab = python.pyimport("minitensor_course.web.tab");
  tab.start();
  if (compiler) await use(at(`${compiler}/bundle.js`), compiler);
  unkept = !compiled.length && at(archive);
  say({ kind: "ready", loaded: performance.getEntriesByType("resource").map(({ name }) => name) });
}

// ---- a C compiler, where the reader wants one

async function use(url, version) {
  const { commands } = await import(url);
  const fetchProgress = ({ doneLength, totalLength }) => {
    const part = Math.round((100 * doneLength) / totalLength);
    say({ kind: "status", text: `the C compiler is on its way: ${part} % of 105 MB` });
  };
  await commands.clang(undefined, {}, { fetchProgress });
  const compile = (words, source, text) => {
    const said = [];
    const print = (data) => data && said.push(new TextDecoder().decode(data));
    const options = { synchronously: true, decodeASCII: false, stdout: print, stderr: print };
    try {
      const files = commands.clang([...words], { [source]: text }, options);
      return [files[words[words.indexOf("-o") + 1]], said.join("")];
    } catch (failure) {
      return [new Uint8Array(0), said.join("") || String(failure.message)];
    }
  };
  tab.use_compiler(compile, version);
}

// ---- bytecode, which is kept by the browser: importing takes half of the time with it

async function kept(url) {
  if (!self.caches) return []; // a page without https, from another machine
  const found = await (await caches.open(COMPILED)).match(url);
  return found ? [new Uint8Array(await found.arrayBuffer())] : [];
}

async function keep(url) {
  if (!self.caches) return;
  const data = tab.compiled(SITE);
  await caches.delete(COMPILED); // that of an older version too
  await (await caches.open(COMPILED)).put(url, new Response(data.toJs()));
  data.destroy();
}

function run({ id, source, name }) {
  current = id;
  return tab.run(source, name, show);
}

function check({ id, lesson, answers }) {
  current = id;
  return tab.check(lesson, answers, show);
}

self.onmessage = async ({ data }) => {
  try {
    if (data.kind === "start") await start(data);
    else {
      printed = 0;
      const value = (data.kind === "run" ? run : check)(data);
      flush();
      say({ kind: "done", id: data.id, value });
    }
    if (unkept && data.kind === "run") {
      const url = unkept;
      unkept = null;
      await keep(url).catch(() => 0); // no room: it compiles again the next time
    }
  } catch (failure) {
    say({ kind: "broken", text: String(failure.message ?? failure).slice(-2000) });
  }
};
