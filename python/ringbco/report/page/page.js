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
  (async () => {
    for (const [name, spec] of Object.entries(charts)) await draw(name, spec);
    follow();
    choose();
    document.body.dataset.drawn = `${views.size} of ${Object.keys(charts).length}`;
  })();
})();
