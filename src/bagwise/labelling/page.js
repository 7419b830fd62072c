"use strict";
// Everything from the server is put into the page as text, never as HTML.

const find = (id) => document.getElementById(id);
const kind = document.body.dataset.kind;
const tab = Array.from(crypto.getRandomValues(new Uint32Array(2)), (part) => part.toString(16)).join("");
const options = Array.from(document.querySelectorAll(".option"));
let item = null;
let shown = false; // whether the model's belief was looked at
let busy = false;

async function ask(path, body) {
  const how = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, how);
  const found = await response.json();
  if (!response.ok) throw new Error(found.error || response.statusText);
  return found;
}

// One request at a time, so that a key pressed twice does not answer for an item that nobody has seen.
async function step(path, body) {
  if (busy) return;
  busy = true;
  try {
    display(await ask(path, body));
    trouble(null);
  } catch (error) {
    trouble(`Nothing was stored: ${error.message}. If bagwise label has ended, start it again with the same command and open the address that it prints.`);
  } finally {
    busy = false;
  }
}

function trouble(text) {
  find("trouble").hidden = text === null;
  find("trouble").textContent = text || "";
}

const mine = (more) => ({ tab, item: item && item.number, ...more });
const answer = (values) => item && step("answer", mine({ values, shown }));
const skip = () => item && step("skip", mine());
const undo = () => step("undo", { tab });
const ticks = () => options.map((button) => Number(button.getAttribute("aria-pressed") === "true"));

function choose(place) {
  if (place >= options.length) return;
  if (kind === "two") answer([place]);
  else if (kind === "one of") answer(options.map((_, other) => Number(other === place)));
  else options[place].setAttribute("aria-pressed", String(!ticks()[place]));
}

function yes() {
  if (kind === "two") answer([1]);
  else if (kind === "several") answer(ticks());
}

function no() {
  if (kind === "two") answer([0]);
  else if (kind === "several") answer(options.map(() => 0));
}

function display(found) {
  report(found.progress);
  item = found.item;
  shown = false;
  find("item").hidden = item === null;
  find("done").hidden = item !== null;
  find("belief").hidden = true;
  if (item === null) return;
  if (kind === "several") options.forEach((button) => button.setAttribute("aria-pressed", "false"));
  find("name").textContent = item.row === null ? `bag ${item.bag}` : `row ${item.row} of bag ${item.bag}`;
  find("where").textContent = item.row === null ? `${item.total} ${item.total === 1 ? "row" : "rows"}` : "";
  find("head").replaceChildren(...["row", ...item.columns].map((name) => cell("th", name)));
  find("rows").replaceChildren();
  find("gallery").replaceChildren();
  add(item);
}

function add(part) {
  for (const row of part.rows) {
    if (row.picture !== null || row.text !== null) find("gallery").append(exhibit(row));
    const line = document.createElement("tr");
    line.append(cell("td", row.row), ...row.cells.map((text) => cell("td", text)));
    find("rows").append(line);
  }
  document.querySelector("table").hidden = part.columns.length === 0;
  find("more").hidden = part.start + part.rows.length >= part.total;
}

function exhibit(row) {
  const figure = document.createElement("figure");
  if (row.picture !== null) {
    const image = document.createElement("img");
    image.src = row.picture;
    image.alt = `picture of row ${row.row}`;
    figure.append(image);
  }
  if (row.text !== null) figure.append(cell("p", row.text, "text"));
  figure.append(cell("figcaption", `row ${row.row}`));
  return figure;
}

function cell(tag, text, style) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (style) made.className = style;
  return made;
}

async function more() {
  const start = find("rows").children.length;
  add(await ask(`rows?item=${item.number}&start=${start}`));
}

async function believe() {
  if (item === null) return;
  const asked = item.number;
  const found = await ask(`belief?item=${asked}`);
  if (item === null || item.number !== asked) return;
  shown = true;
  find("belief").hidden = false;
  const percent = (p) => `${(100 * p).toFixed(0)} %`;
  const names = kind === "two" ? [options[1]] : options;
  const answers = names.map((button, place) => `${button.lastChild.textContent.trim()}: ${percent(found.belief[place])}`);
  let text = `The model thinks ${answers.join(", ")}.`;
  if (found.rows !== null && found.rows.length > 1) {
    const best = found.rows.indexOf(Math.max(...found.rows));
    if (best < item.rows.length) text += ` Most probable: row ${item.rows[best].row} (${percent(found.rows[best])}).`;
  }
  find("belief").textContent = text;
}

function report(progress) {
  const parts = [`${progress.known} labelled (${progress.answers} here), ${progress.left} left`];
  if (progress.expected !== null) parts.push(`expected ${progress.measure} ${progress.expected.toFixed(2)}`);
  if (progress.bits !== null) parts.push(`this label is expected to tell ${progress.bits.toFixed(2)} bit`);
  if (progress.guessed[1] > 0) parts.push(`the model guessed ${progress.guessed[0]} of ${progress.guessed[1]} rightly`);
  parts.push(progress.fitting ? "fitting again …" : `the model knows ${progress.fitted_to} labels`);
  if (progress.message !== null) parts.push(progress.message);
  find("progress").textContent = parts.join(" · ");
}

async function watch() {
  try {
    report(await ask(`progress?tab=${tab}`));
  } catch (error) {
    trouble(`bagwise label does not answer. Every answer so far is stored. Start it again with the same command and open the address that it prints.`);
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const key = event.key.toLowerCase();
  if (key === " " && event.target instanceof HTMLButtonElement) return; // the button is meant
  const does = { y: yes, n: no, u: undo, " ": skip, b: believe }[key];
  if (does !== undefined) does();
  else if (key >= "1" && key <= "9") choose(Number(key) - 1);
  else return;
  event.preventDefault();
});

// A button that was clicked with the mouse lets go of the focus: the space bar shall skip, not answer once more.
function onClick(button, does) {
  button.addEventListener("click", (event) => {
    if (event.detail > 0) button.blur();
    does();
  });
}
options.forEach((button, place) => onClick(button, () => choose(place)));
const buttons = { skip, undo, show: believe, more, save: yes, none: no, "undo-last": undo };
for (const [id, does] of Object.entries(buttons)) if (find(id) !== null) onClick(find(id), does);
step(`next?tab=${tab}`);
setInterval(watch, 2000);
