// What a reader does on a page of a lesson, done by a program; `tests.in_browser` adds it to pages.
import { cells, kept, python, runner, tasks } from "./web/cells.mjs";

const wish = JSON.parse(document.getElementById("wish").textContent);
const began = performance.now();
const seconds = () => Math.round(performance.now() - began) / 1000;
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

async function until(condition, limit = 60) {
  const end = performance.now() + 1000 * limit;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`not within ${limit} s: ${condition}`);
    await pause(50);
  }
}

const press = (box, label) => {
  const found = [...box.querySelectorAll("button")].find((one) => one.textContent === label);
  if (!found) throw new Error(`no button ${label}`);
  found.click();
};
const shown = (cell) => cell.output.textContent;
const noted = () => document.querySelector(".mt-notes").textContent;

const acts = {
  async cells() {
    await runner.run(cells[0]);
    const first = seconds();
    await runner.run(cells.at(-1));
    await pause(1000 * (wish.pause ?? 0)); // what the page keeps is on its way
    const drawn = document.querySelectorAll(".mt-drawn svg").length;
    const ran = cells.map((cell) => ({ done: cell.done, text: cell.done ? "" : shown(cell) }));
    return { first, drawn, ran, last: shown(cells.at(-1)) };
  },

  async tasks() {
    const box = document.querySelector(".mt-tasks");
    const found = [];
    for (const answers of wish.answers) {
      await edit(box, answers);
      press(box, "Check");
      await until(() => runner.at);
      await until(() => !runner.at, 120);
      found.push([...box.querySelectorAll("li")].map((one) => one.textContent));
    }
    return { found, right: kept.lesson.right };
  },

  async stop() {
    const cell = cells.find((one) => one.code.listing);
    await runner.run(cell);
    const works = cell.done;
    await edit(cell.box, "while True:\n    pass");
    press(cell.box, "▶ Run");
    await until(() => document.querySelector(".mt-status").textContent.includes("running"));
    await pause(500);
    press(cell.box, "■ Stop");
    await until(() => !runner.at, 10);
    const said = shown(cell);
    await edit(cell.box, "while True:\n    print('more')");
    press(cell.box, "▶ Run");
    await until(() => shown(cell).includes("more is not shown"));
    press(cell.box, "■ Stop");
    await until(() => !runner.at, 10);
    await edit(cell.box, "print(6 * 7)");
    press(cell.box, "▶ Run");
    await until(() => runner.at);
    await until(() => !runner.at);
    const again = shown(cell);
    await edit(cell.box, "x = []\nwhile True:\n    x.append(bytearray(1 << 26))");
    press(cell.box, "▶ Run");
    await until(() => runner.at);
    await until(() => !runner.at, 120);
    return { works, said, again, full: shown(cell), text: cell.code.text };
  },

  async compiler() {
    document.getElementById("mt-compiler").click();
    const cell = cells.find((one) => one.code.listing);
    await edit(cell.box, wish.source);
    await runner.run(cell);
    const said = shown(cell);
    await runner.run(cells.at(-1));
    const ran = cells.map((one) => ({ done: one.done, text: one.done ? "" : shown(one) }));
    return { said, ran, seconds: seconds() };
  },

  async look() {
    await pause(500);
    const text = cells.map((cell) => cell.code.text);
    return { noted: noted(), text, runs: document.querySelectorAll(".mt-button").length };
  },

  async axe() {
    const cell = cells.find((one) => one.code.listing);
    await runner.run(cell);
    await cell.code.edit();
    await until(() => cell.box.querySelector(".cm-editor"));
    await new Promise((resolve, reject) => {
      const script = document.createElement("script");
      Object.assign(script, { src: "/axe.js", onload: resolve, onerror: reject });
      document.head.append(script);
    });
    const { violations } = await window.axe.run();
    return violations.map(({ id, impact, nodes }) => ({ id, impact, at: nodes[0].html }));
  },

  async shot() {
    await runner.run(cells[wish.upto ?? 3]);
    await cells[0].code.edit();
    await pause(1500);
    cells[wish.upto ?? 3].box.scrollIntoView({ block: "center" });
    await pause(300);
    return {};
  },
};

async function edit(box, text) {
  const code = [...cells, ...tasks].find((one) => one.code.box === box).code;
  code.replace(text);
  await until(() => code.view?.state?.doc.toString() === text);
}

let told;
try {
  told = { value: await acts[wish.act]() };
} catch (failure) {
  told = { failed: `${failure.message}\n${failure.stack}` };
}
const report = { ...told, errors: window.errors, seconds: seconds(), url: location.pathname };
await fetch("/report", { method: "POST", body: JSON.stringify(report) });
