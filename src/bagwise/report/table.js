// The table of all bags: search, sort, show more. Without JavaScript the first rows stay as they are.
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("bag-data").textContent);
  const table = document.getElementById("bag-table");
  const search = document.getElementById("bag-search");
  const status = document.getElementById("bag-status");
  const more = document.getElementById("bag-more");
  const STEP = 100;
  const collator = new Intl.Collator(undefined, { numeric: true });
  const texts = data.rows.map((row) => row.filter((entry) => typeof entry === "string").join(" ").toLowerCase());
  const state = { column: data.sorted, down: true, shown: STEP };

  function compare(one, other) {
    const left = data.rows[one][state.column], right = data.rows[other][state.column];
    if (left === null || right === null) return (left === null) - (right === null); // unknown ones come last
    const sign = state.down ? -1 : 1;
    return sign * (typeof left === "string" ? collator.compare(left, right) : left - right) || one - other;
  }

  function found() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return data.rows.map((_, number) => number).filter((n) => words.every((word) => texts[n].includes(word))).sort(compare);
  }

  function cell(value, kind) {
    const entry = document.createElement("td");
    if (value === null) {
      entry.textContent = "–";
    } else if (kind === "probability") {
      entry.textContent = value.toFixed(3);
      const bar = document.createElement("span"), filled = document.createElement("i");
      bar.className = "bar";
      bar.setAttribute("aria-hidden", "true");
      filled.style.width = 100 * value + "%";
      bar.appendChild(filled);
      entry.appendChild(bar);
    } else {
      entry.textContent = value;
    }
    return entry;
  }

  function line(number) {
    const row = document.createElement("tr");
    data.rows[number].forEach((value, column) => row.appendChild(cell(value, data.kinds[column])));
    return row;
  }

  function draw() {
    const numbers = found();
    const visible = numbers.slice(0, state.shown);
    table.tBodies[0].replaceChildren(...visible.map(line));
    const which = numbers.length === data.rows.length ? "" : " that match the search";
    status.textContent = "Showing " + visible.length + " of " + numbers.length + " bags" + which + ".";
    more.hidden = visible.length === numbers.length;
    heads.forEach((head, column) => {
      const order = column === state.column ? (state.down ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", order);
    });
  }

  function sortBy(column) {
    state.down = column === state.column ? !state.down : data.kinds[column] === "probability";
    state.column = column;
    draw();
  }

  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sortBy(column));
    head.replaceChildren(button);
  });
  search.addEventListener("input", () => {
    state.shown = STEP;
    draw();
  });
  more.addEventListener("click", () => {
    state.shown += STEP;
    draw();
  });
  document.getElementById("bag-tools").hidden = false;
  draw();
})();
