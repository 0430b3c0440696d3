// Draws every chart, tells the page how many were drawn, and keeps the charts in step with each other.
(() => {
  "use strict";
  const { charts, labels, shown, window: zoom } = JSON.parse(document.getElementById("charts").textContent);
  const views = new Map();
  const options = {
    mode: "vega-lite", renderer: "svg", actions: false,
    tooltip: { disableDefaultStyle: true, theme: "custom" },
  };

  function fail(holder, error) {
    holder.classList.add("failed");
    holder.textContent = `This chart could not be drawn: ${error.message}`;
    console.error(`${holder.id}: ${error.message}`);
  }

  async function draw(name, spec) {
    const holder = document.getElementById(`chart-${name}`);
    try {
      views.set(name, (await vegaEmbed(holder, spec, options)).view);
    } catch (error) {
      fail(holder, error);
    }
  }

  // The charts over time move together.
  function follow() {
    const signal = `${zoom}_day`;
    const timed = [...views.values()].filter((view) => signal in view.getState().signals);
    let leading = false;
    for (const view of timed) {
      view.addSignalListener(signal, (_, days) => {
        if (leading) return;
        leading = true;
        const others = timed.filter((other) => other !== view);
        Promise.all(others.map((other) => other.signal(signal, days).runAsync())).finally(() => {
          leading = false;
        });
      });
    }
  }

  // A result switched off leaves every chart that overlays it, and its own charts are hidden.
  function choose() {
    const boxes = [...document.querySelectorAll("nav input")];
    const wanted = boxes.length ? boxes.filter((box) => box.checked).map((box) => labels[box.value]) : labels;
    for (const element of document.querySelectorAll("[data-of]")) {
      element.hidden = !wanted.includes(labels[element.dataset.of]);
    }
    for (const view of views.values()) {
      if (shown in view.getState().signals) view.signal(shown, wanted).runAsync();
    }
  }

  // A table wider than the page ends at a column's edge, never inside a word, and says what follows.
  function fit(holder) {
    const table = holder.querySelector("table");
    const cue = holder.parentElement.querySelector(".cue");
    const row = [...table.rows].reduce((most, other) => (other.cells.length > most.cells.length ? other : most));
    // A ranked table's own holder is as narrow as the table was made the last time.
    const room = (holder.closest(".ranked") ?? holder.parentElement).clientWidth;
    const first = row.cells[0].offsetWidth;
    const others = [...row.cells].slice(1);
    const whole = table.offsetWidth <= room + 1;
    const shown = others.filter((cell) => cell.offsetLeft + cell.offsetWidth <= room + holder.scrollLeft);
    const atEnd = holder.scrollLeft > 0 && holder.scrollLeft + holder.clientWidth >= holder.scrollWidth - 1;
    holder.style.scrollPaddingLeft = `${first}px`;
    if (whole || !shown.length) {
      holder.style.maxWidth = "";
    } else if (atEnd) {
      // Nothing is left to scroll by: the first of the last columns must begin beside the one that stays.
      const lead = others.find((cell) => cell.offsetLeft >= holder.scrollLeft + first - 1);
      holder.style.maxWidth = `${first + table.offsetWidth - (lead ?? others.at(-1)).offsetLeft}px`;
      holder.scrollLeft = holder.scrollWidth;
    } else {
      const last = shown.at(-1);
      holder.style.maxWidth = `${Math.floor(last.offsetLeft + last.offsetWidth - holder.scrollLeft)}px`;
    }
    const more = whole || atEnd ? 0 : others.length - shown.length;
    cue.hidden = whole;
    cue.textContent = more ? `${more} more column${more > 1 ? "s" : ""}: scroll sideways` : "the last columns";
  }

  function fitAll() {
    for (const holder of document.querySelectorAll(".scroll")) if (holder.offsetParent) fit(holder);
  }

  // A click on a title sorts all of these tables by that column; a second one turns the order round.
  function sortBy(button) {
    const head = button.closest("th");
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of document.querySelectorAll(".ranked th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const value = (row) => parseFloat(row.cells[head.cellIndex].dataset.value ?? "NaN");
    const rows = [...head.closest("table").tBodies[0].rows].map((row) => [value(row), +row.dataset.row]);
    rows.sort(([a, i], [b, j]) => {
      if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b) || i - j; // without such a figure: last
      return (descending ? b - a : a - b) || i - j;
    });
    for (const body of document.querySelectorAll(".ranked tbody")) {
      const own = new Map([...body.rows].map((row) => [+row.dataset.row, row]));
      body.append(...rows.map(([, number]) => own.get(number)));
    }
  }

  // What is folded away would be missing on paper.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
  });

  document.querySelector("nav")?.addEventListener("change", choose);
  for (const button of document.querySelectorAll(".ranked th button")) {
    button.addEventListener("click", () => sortBy(button));
  }
  for (const holder of document.querySelectorAll(".scroll")) {
    holder.addEventListener("scrollend", () => fit(holder));
  }
  for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", fitAll);
  window.addEventListener("resize", fitAll);
  fitAll();
  (async () => {
    for (const [name, spec] of Object.entries(charts)) await draw(name, spec);
    follow();
    choose();
    document.body.dataset.drawn = `${views.size} of ${Object.keys(charts).length}`;
  })();
})();
