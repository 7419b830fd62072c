// Runs the script of a report's table in a small imitation of a page: node table_probe.js TABLE.js DATA.json
// Prints, as JSON, what the table shows after each of some actions.
"use strict";
const fs = require("fs");
const [script, data, columns] = [process.argv[2], process.argv[3], JSON.parse(process.argv[4])];

class Element {
  constructor(tag) {
    Object.assign(this, { tag, children: [], listeners: {}, attributes: {}, style: {}, hidden: false, value: "", text: "" });
  }
  get textContent() { return this.text + this.children.map((child) => child.textContent).join(""); }
  set textContent(value) { this.text = String(value); this.children = []; }
  appendChild(child) { this.children.push(child); return child; }
  replaceChildren(...children) { this.text = ""; this.children = children; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, action) { this.listeners[name] = action; }
}

const ids = {};
for (const id of ["bag-data", "bag-table", "bag-search", "bag-status", "bag-more", "bag-tools"]) ids[id] = new Element(id);
ids["bag-data"].textContent = fs.readFileSync(data, "utf-8");
const heads = columns.map((name) => { const head = new Element("th"); head.textContent = name; return head; });
ids["bag-table"].tHead = { rows: [{ cells: heads }] };
ids["bag-table"].tBodies = [new Element("tbody")];
global.document = { getElementById: (id) => ids[id], createElement: (tag) => new Element(tag) };
eval(fs.readFileSync(script, "utf-8"));

const shown = () => ({
  bags: ids["bag-table"].tBodies[0].children.map((row) => row.children[0].textContent),
  status: ids["bag-status"].textContent,
  more: !ids["bag-more"].hidden,
  sorts: heads.map((head) => head.attributes["aria-sort"]),
});
const click = (column) => heads[column].children[0].listeners.click();
const type = (words) => { ids["bag-search"].value = words; ids["bag-search"].listeners.input(); };
const steps = {};
steps.start = shown();
ids["bag-more"].listeners.click(); steps.more = shown();
click(0); steps.by_name = shown();
click(0); steps.by_name_down = shown();
click(2); steps.by_probability = shown();
type("slide 7"); steps.searched = shown();
type("nothing like this"); steps.nothing = shown();
console.log(JSON.stringify(steps));
