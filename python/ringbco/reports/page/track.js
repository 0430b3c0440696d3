// The track of the player: utilisation, queue and events over a part of the clock, and the axis of time below.
// `view` is that part, in ticks. It opens up to the last submission; a drag chooses another, a double click all.
const ringbcoTrack = (player) => {
  "use strict";
  const { root, at, data, LAST, EVENTS, OTHER, tone, key, element, ask } = player;
  const BINS = 600, LEAST = LAST / 1e6, TOP = 15, TALL = 32, AXIS = 18, LINE = 6, DAY = 86400, FONT = "11px system-ui, sans-serif";
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, ...[1, 2, 4, 7, 14, 28, 56, 91, 182, 364, 728, 3640, 36400, 364000].map((days) => days * DAY)];
  const canvas = at("track"), span = data.last - data.first, shown = { from: 0, to: LAST };
  const last = data.submitted === null ? LAST : Math.round(((data.submitted - data.first) / span) * LAST);
  const seconds = (tick) => data.first + (tick / LAST) * span;
  const share = (tick) => (tick - shown.from) / (shown.to - shown.from);
  const tick = (event) => { const box = canvas.getBoundingClientRect(); return shown.from + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * (shown.to - shown.from); };

  // Means over even steps of a part of the clock: GPUs held by jobs, and jobs that wait.
  const means = (scene, from, to) => {
    const { stays, jobs } = scene, wide = (to - from) / BINS, busy = new Float64Array(BINS + 1), queued = new Float64Array(BINS + 1);
    const rise = (sums, level, instant, by) => {
      if (instant >= to) return;
      const place = Math.max(instant - from, 0) / wide, bin = Math.min(Math.floor(place), BINS - 1);
      sums[bin] += by * (bin + 1 - place);
      level[bin + 1] += by;
    };
    const levels = [new Float64Array(BINS + 1), new Float64Array(BINS + 1)];
    for (let row = 0; row < stays.rows; row++) {
      const job = stays.job[row], held = stays.gpus[row] * (jobs.share[job] ? jobs.share[job] / 1000 : 1);
      if (jobs.service[job] || stays.since[row] >= to || stays.end[row] <= from) continue;
      rise(busy, levels[0], (stays.taken ?? stays.start)[row], held); rise(busy, levels[0], stays.end[row], -held);
      rise(queued, levels[1], stays.since[row], 1); rise(queued, levels[1], stays.start[row], -1);
    }
    const whole = (sums, level) => { let now = 0; return Array.from({ length: BINS }, (_, bin) => { now += level[bin]; return Math.max(0, Number((sums[bin] + now).toPrecision(4))); }); };
    return { busy: whole(busy, levels[0]), queued: whole(queued, levels[1]) };
  };

  // Time ------------------------------------------------------------------------------------------------------------
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const parts = (time) => { // the day, as a date where the table knows its epoch, and the time of day
    const whole = Math.round(time) + 0; // no -0
    if (data.zero !== null) { const [day, hour] = new Date(data.zero + whole * 1000).toISOString().split("T"); return [day, hour.slice(0, 8)]; }
    const days = Math.floor(whole / DAY), rest = whole - days * DAY;
    return [`day ${days.toLocaleString("en")}`, `${two(rest / 3600)}:${two((rest / 60) % 60)}:${two(rest % 60)}`];
  };
  const clock = (instant) => parts(seconds(instant)).join(data.zero === null ? ", " : " ");
  // Instants of the axis: round ones, so far apart that their texts have room.
  const instants = (width) => {
    const from = seconds(shown.from), to = seconds(shown.to), zero = data.zero === null ? 0 : data.zero / 1000;
    const least = ((to - from) * (data.zero === null ? 80 : 96)) / width, step = STEPS.find((one) => one >= least) || STEPS.at(-1), found = [];
    for (let time = Math.ceil((from + zero) / step - 1e-9) * step - zero; time <= to && found.length < 100; time += step) found.push(time);
    const days = found.map((time) => parts(time)[0]);
    return found.map((time, n) => { const [day, hour] = parts(time); return [time, step >= DAY || days[n - 1] !== day ? day : "", step >= DAY ? "" : hour.slice(0, step >= 60 ? 5 : 8)]; });
  };
  // Those of an axis so wide: the place of each, where its text begins, and the text; "" where there is no room.
  const marks = (width) => {
    const pen = canvas.getContext("2d"), from = seconds(shown.from), long = seconds(shown.to) - from;
    pen.font = FONT;
    const there = instants(width), midnight = (hour) => hour === "" || /^00:00(:00)?$/.test(hour), named = there.some(([, , hour]) => midnight(hour));
    let free = 0;
    return there.map(([time, day, hour], n) => {
      const x = Math.round(((time - from) / long) * width);
      // Midnight says which day begins; where there is none, the first instant says which day it is.
      const text = day && midnight(hour) ? day : n || named ? hour : `${day}, ${hour}`, wide = pen.measureText(text).width, left = Math.min(Math.max(0, x - wide / 2), width - wide);
      if (left < free) return [x, left, ""];
      free = left + wide + 10;
      return [x, left, text];
    });
  };
  const axis = (pen, width, height) => {
    for (const [x, left, text] of marks(width)) {
      pen.fillStyle = tone("--line");
      pen.fillRect(x, 0, 1, height - AXIS + 4);
      pen.fillStyle = tone("--soft");
      pen.fillText(text, left, height - 4);
    }
  };

  // Drawing ---------------------------------------------------------------------------------------------------------
  const draw = () => {
    const sides = player.sides(), lanes = sides.length, scale = devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    const kinds = [...new Set(sides.flatMap(({ scene }) => Array.from(scene.events, (row) => scene.ended[scene.stays.ended[row]])))];
    const each = kinds.length * LINE + 3, height = 100 + (kinds.length ? lanes * each + 4 : 0) + AXIS, pen = canvas.getContext("2d");
    canvas.width = width * scale; canvas.height = height * scale; canvas.style.height = `${height}px`;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = FONT;
    axis(pen, width, height);
    const series = sides.map(({ scene }) => means(scene, shown.from, shown.to)), gpus = sides[0].scene.base[sides[0].scene.servers.gpus.length];
    const most = Math.max(1, ...series.flatMap(({ queued }) => queued));
    const path = (values, limit, top) => {
      pen.beginPath();
      values.forEach((value, n) => { const y = top + TALL * (1 - Math.min(value / limit, 1)); pen.lineTo((n / BINS) * width, y); pen.lineTo(((n + 1) / BINS) * width, y); });
      pen.stroke();
    };
    // Solid lines first: the dashes of another above them show both where they coincide.
    for (const n of [...sides.keys()].sort((a, b) => sides[a].scene.dashes.length - sides[b].scene.dashes.length)) {
      const { scene } = sides[n];
      pen.strokeStyle = tone(scene.tone);
      pen.lineWidth = 1.5;
      pen.setLineDash(scene.dashes);
      path(series[n].busy, scene.base[scene.servers.gpus.length], TOP);
      path(series[n].queued, most, TOP + 49);
    }
    pen.setLineDash([]);
    sides.forEach(({ scene }, n) => {
      const seen = new Set();
      for (const row of scene.events) {
        const x = Math.round(share(scene.stays.end[row]) * width), kind = scene.ended[scene.stays.ended[row]];
        if (x < 0 || x > width || seen.has(`${x} ${kind}`)) continue;
        seen.add(`${x} ${kind}`);
        pen.fillStyle = EVENTS[kind] || OTHER;
        pen.fillRect(x, 102 + n * each + kinds.indexOf(kind) * LINE, 1.5, LINE - 1);
      }
    });
    pen.fillStyle = tone("--soft");
    pen.fillText(`GPUs busy, of ${gpus.toLocaleString("en")}`, 0, 11);
    pen.fillText(`jobs waiting, mean up to ${Math.round(most).toLocaleString("en")}`, 0, 60);
    at("events").replaceChildren(...(kinds.length ? [element("span", "Events:"), ...kinds.map((kind) => key(EVENTS[kind] || OTHER, kind))] : []));
    const whole = shown.from <= 0 && shown.to >= LAST, place = at("place");
    at("all").disabled = whole;
    at("part").textContent = whole ? "" : shown.from <= 0 && shown.to === last ? `Up to the last submission, ${clock(last)}.` : `${clock(shown.from)} to ${clock(shown.to)}.`;
    place.min = (shown.from / LAST) * 1e6;
    place.max = (shown.to / LAST) * 1e6;
  };

  // The part that is shown ------------------------------------------------------------------------------------------
  const show = (from, to) => {
    const wide = Math.min(Math.max(to - from, LEAST), LAST);
    shown.from = Math.min(Math.max(0, from), LAST - wide);
    shown.to = shown.from + wide;
    player.keep(shown.from, shown.to);
    draw();
    ask(true);
  };
  const all = () => show(0, LAST);
  const zoom = (by, about) => { const wide = (shown.to - shown.from) * by, left = about - Math.min(Math.max(share(about), 0), 1) * wide; show(left, left + wide); };
  // Turns to the part in which an instant is.
  const turn = (now) => {
    const wide = shown.to - shown.from;
    if (now < shown.from || now > shown.to) show(Math.floor(now / wide) * wide, Math.floor(now / wide) * wide + wide);
  };
  const handle = () => {
    const range = at("range");
    let begun = null;
    const place = (event) => {
      const ends = [share(begun), share(tick(event))].sort((a, b) => a - b);
      Object.assign(range.style, { left: `${ends[0] * 100}%`, width: `${(ends[1] - ends[0]) * 100}%` });
      range.hidden = (ends[1] - ends[0]) * canvas.clientWidth < 4;
    };
    canvas.addEventListener("pointerdown", (event) => { if (event.button) return; begun = tick(event); canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => { if (begun !== null) place(event); });
    canvas.addEventListener("pointerup", (event) => {
      if (begun === null) return;
      const ends = [begun, tick(event)].sort((a, b) => a - b), drawn = !range.hidden;
      begun = null;
      range.hidden = true;
      if (drawn) show(...ends); else player.move(ends[0]);
    });
    canvas.addEventListener("pointercancel", () => { begun = null; range.hidden = true; });
    canvas.addEventListener("dblclick", all);
    at("all").addEventListener("click", () => { all(); at("place").focus(); });
  };
  // All jobs may come at once, or the last just before the end: then the whole clock is shown.
  const open = () => {
    if (last > LAST * 0.02 && last < LAST * 0.98) shown.to = last;
    draw();
  };
  return { shown, share, clock, means, marks, draw, show, all, zoom, turn, handle, open };
};
