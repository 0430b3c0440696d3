// The player: who holds which GPUs at an instant, who waits, and what happens, of one result or two on one clock.
// Invariant: `now` is the only state that time has. A picture is worked out of it alone: rows whose stay has begun
// and not ended are drawn, whichever way the clock came there.
(() => {
  "use strict";
  const root = document.getElementById("player");
  const data = JSON.parse(document.getElementById("player-data").textContent);
  const LAST = 2 ** 32 - 1;
  const KINDS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, "-4": Float32Array };
  const LISTED = 14, TABLE = 400, STAYS = 20;
  const at = (name) => root.querySelector(`[data-at="${name}"]`);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const span = data.last - data.first;
  const long = (ticks) => (ticks / LAST) * span;

  // Words -----------------------------------------------------------------------------------------------------------
  const clock = (tick) => track.clock(tick);
  const duration = (time) => {
    for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (time >= unit) return `${(time / unit).toPrecision(3)} ${name}`.replace(/\.0+ /, " ");
    }
    return `${time < 10 && time > 0 ? time.toPrecision(2) : Math.round(time)} s`;
  };
  const many = (count, one, more) => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;
  const gpus = (count) => many(count, "GPU", "GPUs");
  // The end of a server's name, which tells it from others.
  const brief = (name) => (String(name).length > 18 ? `…${String(name).slice(-17)}` : String(name));
  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  // The line with which the track, and a report's charts, draw a result.
  const swatch = ({ tone, dashes }) => {
    let at = 0;
    const stops = (dashes.length ? dashes : [1, 0]).map((long, n) => `${n % 2 ? "transparent" : `var(${tone})`} ${at}px ${(at += long)}px`);
    return element("span", "", { class: "swatch", style: `background:repeating-linear-gradient(90deg, ${stops.join(", ")})` });
  };

  const sorted = (rows, key) => Uint32Array.from({ length: rows }, (_, row) => row).sort((a, b) => key(a) - key(b) || a - b);
  const { EVENTS, MODES, OTHER, SERVICE, paint } = ringbcoColours(long, sorted);

  // Data ------------------------------------------------------------------------------------------------------------
  const inflate = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  };
  const columns = async (table) => {
    const buffer = await inflate(table.bytes), found = { rows: table.rows };
    let offset = 0;
    for (const [name, kind] of table.columns) {
      found[name] = new KINDS[kind](buffer, offset, table.rows);
      offset += (found[name].byteLength + 3) & ~3;
    }
    return found;
  };

  const load = async (told) => {
    const names = await inflate(told.names).then((bytes) => JSON.parse(new TextDecoder().decode(bytes)));
    const [jobs, stays, held, gone] = await Promise.all([told.jobs, told.stays, told.held, told.gone].map(columns));
    const scene = { ...told, jobs, stays, held, gone, ids: names[0], users: names[1], who: names[2], causes: names[3] };
    scene.byRank = sorted(stays.rows, (row) => stays.rank[row]);
    scene.first = new Uint32Array(jobs.rows + 1);
    for (const job of stays.job) scene.first[job + 1]++;
    for (let job = 0; job < jobs.rows; job++) scene.first[job + 1] += scene.first[job];
    scene.own = new Uint32Array(stays.rows);
    const next = scene.first.slice();
    for (const row of sorted(stays.rows, (row) => stays.start[row])) scene.own[next[stays.job[row]]++] = row;
    scene.waited = new Float64Array(stays.rows); // ticks that the job had waited by the start of the stay
    for (let job = 0; job < jobs.rows; job++) {
      let sum = 0;
      for (let i = scene.first[job]; i < scene.first[job + 1]; i++) {
        sum += stays.start[scene.own[i]] - stays.since[scene.own[i]];
        scene.waited[scene.own[i]] = sum;
      }
    }
    scene.events = sorted(stays.rows, (row) => stays.end[row]).filter((row) => told.ended[stays.ended[row]] !== "done" && !jobs.service[stays.job[row]] && stays.end[row] < LAST);
    place(scene);
    most(scene);
    return scene;
  };

  // Which GPUs of its server each row holds: those of others on its seat, else those that are free, the lowest first.
  // A result with shares records it.
  const place = (scene) => {
    const { held, stays, servers } = scene, seats = new Map(), base = new Uint32Array(servers.gpus.length + 1);
    servers.gpus.forEach((count, server) => { base[server + 1] = base[server] + count; });
    const until = new Float64Array(base[servers.gpus.length]);
    scene.base = base;
    scene.from = new Uint32Array(held.rows + 1);
    for (let row = 0; row < held.rows; row++) scene.from[row + 1] = scene.from[row] + held.gpus[row];
    scene.cells = new Uint32Array(scene.from[held.rows]);
    scene.byStart = sorted(held.rows, (row) => stays.start[held.stay[row]]);
    for (const row of scene.byStart) {
      const server = held.server[row], start = stays.start[held.stay[row]], end = stays.end[held.stay[row]];
      const seat = stays.seat && stays.seat[held.stay[row]] && `${stays.seat[held.stay[row]]} ${server}`, host = seats.get(seat);
      let put = scene.from[row];
      if (seat && !held.gpu && host !== undefined) {
        for (let i = scene.from[host]; i < scene.from[host + 1] && put < scene.from[row + 1]; i++) {
          const cell = scene.cells[i];
          scene.cells[put++] = cell; until[cell] = Math.max(until[cell], end);
        }
        continue;
      }
      if (seat) seats.set(seat, row);
      if (held.gpu && scene.jobs.share[stays.job[held.stay[row]]]) {
        scene.cells[put] = base[server] + held.gpu[row];
        continue;
      }
      for (let cell = base[server] + (held.gpu ? held.gpu[row] : 0); cell < base[server + 1] && put < scene.from[row + 1]; cell++) {
        if (until[cell] <= start || held.gpu) { scene.cells[put++] = cell; until[cell] = end; }
      }
      while (put < scene.from[row + 1]) scene.cells[put++] = base[server]; // what no sound result has
    }
  };
  // Users with most GPU time have a colour of their own.
  const most = (scene) => {
    const { jobs, stays } = scene, time = new Float64Array(scene.users.length + 1);
    for (let row = 0; row < stays.rows; row++) time[jobs.user[stays.job[row]]] += (stays.end[row] - stays.start[row]) * stays.gpus[row];
    const first = sorted(time.length, (user) => -time[user]).filter((user) => user > 0).slice(0, 10);
    scene.shade = new Map(Array.from(first, (user, number) => [user, number]));
  };

  // State -----------------------------------------------------------------------------------------------------------
  let now = 0, playing = false, drawn = 0, told = 0, mode = "job", follow = null, scenes = [], sides = [], waiting = false, missing = "", differ = "", reveal = null;
  const tone = (name) => getComputedStyle(root).getPropertyValue(name).trim() || "#888";

  class Side {
    constructor(scene, box) {
      this.box = box;
      this.canvas = box.querySelector("canvas");
      this.show(scene);
      this.canvas.addEventListener("pointermove", (event) => this.point(event));
      this.canvas.addEventListener("pointerleave", () => { at("tip").hidden = true; });
      this.canvas.addEventListener("click", (event) => { const found = this.under(event); start(found === null || found.stay === null ? null : this.scene.ids[this.scene.stays.job[found.stay]]); });
    }
    show(scene) {
      this.scene = scene;
      this.owner = new Int32Array(scene.base[scene.servers.gpus.length]);
      this.beside = new Map(); // of each GPU that jobs of a seat hold, their rows
      this.active = [];
      scene.p = new Uint16Array(scene.stays.rows);
      scene.types = scene.servers.gpu_type ? [...new Set(scene.servers.gpu_type)] : [];
      this.box.querySelector(".label").replaceChildren(swatch(scene), scene.label);
      this.box.querySelector(".order").textContent = `Waiting jobs, ${scene.order}`;
      this.fit();
    }
    // The largest cells with which all servers fit; the canvas grows where not even the smallest do.
    fit() {
      const { servers } = this.scene, count = servers.gpus.length, widest = Math.max(...servers.gpus);
      const width = Math.max(this.canvas.parentElement.clientWidth, 200), height = Math.max(260, Math.min(innerHeight * 0.5, 600));
      // A server's name stands left of its row or, in the grid, above its block; left of the first where that is too small.
      const rows = at("layout").value === "rows", digits = 7 * Math.max(...servers.name.map((name) => brief(name).length));
      const wide = rows ? widest : Math.max(Math.ceil(Math.sqrt(widest)), Math.min(widest, 4)), high = Math.ceil(widest / wide);
      let size = rows ? 20 : 36, across = 1, tall = 0, label = 0, above = 0, cell = size;
      for (; size > 0.5; size -= size > 4 ? 1 : 0.5) {
        const gap = size > 3 ? (rows ? 2 : 4) : 1;
        above = !rows && size >= 8 && wide * size >= digits ? 13 : 0;
        label = above ? 0 : digits + 8;
        cell = rows ? Math.max(Math.min(Math.floor((width - label) / wide), 110), 0.5) : size;
        this.step = [wide * cell + gap, above + high * size + gap];
        across = rows ? 1 : Math.max(1, Math.floor((width - label) / this.step[0]));
        tall = Math.ceil(count / across) * this.step[1];
        if (tall <= (rows ? Math.max(height, Math.min(count * 10, 3000)) : height) && label + this.step[0] <= width + (rows ? gap : 0)) break;
      }
      const scale = devicePixelRatio || 1;
      Object.assign(this, { size: Math.max(size, 0.5), cell: Math.max(cell, 0.5), across, wide, label, above, rows, tall });
      this.canvas.style.height = `${Math.ceil(tall)}px`;
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.ceil(tall * scale);
      this.pen = this.canvas.getContext("2d");
      this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    }
    corner(server) {
      return [(server % this.across) * this.step[0] + this.label, Math.floor(server / this.across) * this.step[1] + this.above];
    }
    numbers() {
      const { pen, size, across, step } = this, left = this.rows ? size > 7 : !this.above, every = this.rows || this.above ? 1 : across * Math.ceil(12 / step[1]);
      if (!left && !this.above) return;
      pen.fillStyle = tone("--soft");
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = left ? "right" : "left";
      this.scene.servers.name.forEach((name, server) => {
        if (server % every) return;
        const [x, y] = this.corner(server);
        if (left) pen.fillText(brief(name), x - 5, y + Math.max(size - 4, 9)); else pen.fillText(brief(name), x, y - 3);
      });
    }
    // What holds GPUs now, how many spanning jobs each server has, and each one's contention: the most of its servers.
    look() {
      const { stays, held, servers, p } = this.scene, links = new Uint16Array(servers.gpus.length), active = this.active;
      active.length = 0;
      for (let row = 0; row < held.rows; row++) {
        const stay = held.stay[row];
        if (stays.start[stay] > now || stays.end[stay] <= now) continue;
        active.push(row);
        if (stays.servers[stay] > 1) links[held.server[row]]++;
        p[stay] = 0;
      }
      for (const row of active) {
        const stay = held.stay[row];
        if (stays.servers[stay] > 1) p[stay] = Math.max(p[stay], links[held.server[row]]);
      }
      const queue = [];
      let queued = 0, asked = 0;
      for (const row of this.scene.byRank) {
        if (stays.since[row] > now || stays.start[row] <= now) continue;
        queued++;
        const job = stays.job[row];
        asked += this.scene.jobs.share[job] ? this.scene.jobs.share[job] / 1000 : this.scene.jobs.gpus[job];
        if (queue.length < LISTED) queue.push(row);
      }
      Object.assign(this, { queue, queued, asked });
    }
    draw() {
      this.look();
      const { pen, size, scene } = this, { stays, held, servers, gone, jobs, base } = scene;
      const inner = size > 3 ? size - 1 : size, cell = this.cell, room = cell > 3 ? cell - 1 : cell, own = follow && scene.job;
      pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
      this.owner.fill(-1);
      pen.fillStyle = tone("--idle");
      for (let server = 0; server < servers.gpus.length; server++) {
        const [left, top] = this.corner(server);
        for (let gpu = 0; gpu < servers.gpus[server]; gpu++) {
          pen.fillRect(left + (gpu % this.wide) * cell, top + Math.floor(gpu / this.wide) * size, room, inner);
        }
      }
      this.numbers();
      const full = new Map(), beside = this.beside;
      let busy = 0;
      beside.clear();
      for (const row of stays.seat ? this.active : []) {
        for (let i = scene.from[row]; stays.seat[held.stay[row]] && i < scene.from[row + 1]; i++) {
          if (beside.has(scene.cells[i])) beside.get(scene.cells[i]).push(row); else beside.set(scene.cells[i], [row]);
        }
      }
      for (const row of this.active) {
        const stay = held.stay[row], server = held.server[row], [left, top] = this.corner(server), job = stays.job[stay];
        pen.fillStyle = jobs.service[job] ? SERVICE : MODES[mode].of(scene, stay, server);
        pen.globalAlpha = own !== null && own !== undefined && job !== own ? 0.28 : 1;
        const share = jobs.share[job] / 1000;
        for (let i = scene.from[row]; i < scene.from[row + 1]; i++) {
          const gpu = scene.cells[i] - base[server], x = left + (gpu % this.wide) * cell, y = top + Math.floor(gpu / this.wide) * size;
          const part = share || 1 / (beside.get(scene.cells[i])?.length || 1), before = part < 1 ? full.get(scene.cells[i]) || 0 : 0;
          pen.fillRect(x + before * room, y, part * room, inner);
          if (part < 1) full.set(scene.cells[i], before + part);
          this.owner[scene.cells[i]] = row;
          busy += part;
        }
      }
      pen.globalAlpha = 1;
      let absent = 0, draining = 0;
      for (let row = 0; row < gone.rows; row++) {
        if (gone.start[row] > now || gone.end[row] <= now) continue;
        const cause = scene.causes[gone.cause[row] - 1] ?? "", drains = cause.startsWith("draining");
        this.cross(gone.server[row], cause === "asleep" || drains);
        if (drains) draining++; else absent += servers.gpus[gone.server[row]];
      }
      if (own !== null && own !== undefined) this.ring(own);
      const total = base[servers.gpus.length];
      this.state = `${busy.toLocaleString("en", { maximumFractionDigits: 1 })} of ${gpus(total)} busy${absent ? `, ${absent} down or asleep` : ""}${draining ? `, ${many(draining, "server drains", "servers drain")}` : ""}; ${many(this.queued, "job waits", "jobs wait")}${this.queued ? ` for ${gpus(Math.round(this.asked * 10) / 10)}` : ""}`;
    }
    cross(server, asleep) {
      const { pen, size, cell } = this, [left, top] = this.corner(server), count = this.scene.servers.gpus[server];
      const width = Math.min(count, this.wide) * cell - 1, height = Math.ceil(count / this.wide) * size - 1;
      pen.strokeStyle = asleep ? tone("--soft") : EVENTS.failed;
      pen.lineWidth = size > 5 ? 1.5 : 1;
      pen.strokeRect(left + 0.5, top + 0.5, width, height);
      if (!asleep) { pen.beginPath(); pen.moveTo(left, top); pen.lineTo(left + width, top + height); pen.moveTo(left + width, top); pen.lineTo(left, top + height); pen.stroke(); }
    }
    // The followed job's GPUs in a frame and, while it spans, its ring through its servers.
    ring(job) {
      const { pen, size, cell, scene } = this, centres = [];
      pen.strokeStyle = tone("--ink");
      pen.lineWidth = 2;
      for (const row of this.active) {
        if (scene.stays.job[scene.held.stay[row]] !== job) continue;
        const server = scene.held.server[row], [left, top] = this.corner(server);
        let x = 0, y = 0;
        for (let i = scene.from[row]; i < scene.from[row + 1]; i++) {
          const gpu = scene.cells[i] - scene.base[server], cx = left + (gpu % this.wide) * cell, cy = top + Math.floor(gpu / this.wide) * size;
          pen.strokeRect(cx, cy, Math.max(cell - 1, 1), Math.max(size - 1, 1));
          x += cx + cell / 2; y += cy + size / 2;
        }
        const count = scene.from[row + 1] - scene.from[row];
        centres.push([x / count, y / count]);
      }
      if (centres.length < 2) return;
      pen.beginPath();
      centres.forEach(([x, y], n) => (n ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.stroke();
    }
    // The server and the GPU that are pointed at, and the stay that holds it; null beside the blocks.
    under(event) {
      const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left - this.label, y = event.clientY - box.top;
      const column = Math.floor(x / this.step[0]), server = Math.floor(y / this.step[1]) * this.across + column, { servers, base, held } = this.scene;
      if (column < 0 || column >= this.across || server >= servers.gpus.length) return null;
      const [left, top] = this.corner(server), across = Math.floor((event.clientX - box.left - left) / this.cell);
      const gpu = Math.floor((y - top) / this.size) * this.wide + across;
      if (across < 0 || across >= this.wide || gpu < 0 || gpu >= servers.gpus[server]) return null;
      const cell = base[server] + gpu, rows = this.beside.get(cell) ?? [this.owner[cell]], inside = (event.clientX - box.left - left) / this.cell - across;
      const row = rows[Math.floor(inside * rows.length)], others = rows.filter((other) => other !== row).map((other) => held.stay[other]);
      return { server, stay: row < 0 ? null : held.stay[row], others };
    }
    point(event) {
      const tip = at("tip"), found = this.under(event);
      tip.hidden = found === null;
      this.canvas.style.cursor = found === null || found.stay === null ? "default" : "pointer";
      if (found === null) return;
      const company = (found.others ?? []).map((stay) => this.scene.ids[this.scene.stays.job[stay]]).join(", ");
      const lines = found.stay === null ? [this.where(found.server), "idle"] : [...facts(this.scene, found.stay), ...(company ? [`on the same GPUs: ${company}`] : []), this.where(found.server)];
      tip.replaceChildren(...lines.map((line, n) => element(n ? "div" : "strong", line)));
      const box = root.getBoundingClientRect();
      tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4))}px`;
      tip.style.top = `${event.clientY - box.top + 16}px`;
    }
    // A server by its name and type, and why it is away.
    where(server) {
      const { servers, gone, causes } = this.scene, type = servers.gpu_type ? `, ${servers.gpu_type[server]}` : "";
      let away = "";
      for (let row = 0; row < gone.rows; row++) if (gone.server[row] === server && gone.start[row] <= now && gone.end[row] > now) { const cause = causes[gone.cause[row] - 1]; away = cause === "asleep" ? ", asleep" : cause?.startsWith("draining") ? `, ${cause}` : `, down${cause ? `: ${cause}` : ""}`; }
      return `server ${servers.name[server]}${type}${away}`;
    }
    list() {
      const { scene } = this, rows = this.queue.map((row) => {
        const job = scene.stays.job[row], item = document.createElement("li");
        const button = element("button", scene.ids[job], { type: "button", "data-job": scene.ids[job] });
        button.append(element("span", size(scene, job)), element("span", duration(long(now - scene.stays.since[row]))));
        item.append(button);
        return item;
      });
      if (this.queued > rows.length) rows.push(element("li", `and ${(this.queued - rows.length).toLocaleString("en")} more`));
      this.box.querySelector(".heads").hidden = !rows.length;
      if (!rows.length) rows.push(element("li", "no jobs wait"));
      this.box.querySelector("ol").replaceChildren(...rows);
      this.box.querySelector(".state").textContent = this.state;
    }
    table() {
      const { scene } = this, jobs = scene.servers.gpus.map(() => []);
      for (const row of this.active) jobs[scene.held.server[row]].push([scene.ids[scene.stays.job[scene.held.stay[row]]], scene.held.gpus[row]]);
      const made = document.createElement("table"), body = document.createElement("tbody"), head = made.createTHead().insertRow();
      made.createCaption().textContent = `${scene.label}, ${clock(now)}`;
      for (const name of ["server", "GPUs", ...(scene.servers.gpu_type ? ["type"] : []), "held by (GPUs)"]) head.append(element("th", name, { scope: "col" }));
      scene.servers.name.slice(0, TABLE).forEach((name, server) => {
        const row = body.insertRow();
        row.append(element("th", name, { scope: "row" }));
        row.insertCell().textContent = scene.servers.gpus[server];
        if (scene.servers.gpu_type) row.insertCell().textContent = scene.servers.gpu_type[server];
        row.insertCell().textContent = jobs[server].map(([job, count]) => `${job} (${count})`).join(", ") || "idle";
      });
      made.append(body);
      const more = scene.servers.name.length - TABLE;
      return more > 0 ? [made, element("p", `… ${many(more, "more server", "more servers")}: choose some with --servers`)] : [made];
    }
  }

  const size = (scene, job) => (scene.jobs.share[job] ? `${scene.jobs.share[job] / 1000} of a GPU` : gpus(scene.jobs.gpus[job]));
  const why = (scene, stay) => {
    const { stays } = scene, there = Object.entries(scene.waits).filter(([name]) => stays[name][stay] >= 1).sort((a, b) => stays[b[0]][stay] - stays[a[0]][stay]);
    return there.map(([name, text]) => `${duration(stays[name][stay])} ${text}`).join("; ");
  };
  const facts = (scene, stay) => {
    const { stays, jobs } = scene, job = stays.job[stay], user = scene.users[jobs.user[job] - 1];
    if (jobs.service[job]) return [`service ${scene.ids[job]}`, `a replica of ${gpus(stays.gpus[stay])}`];
    const waited = long(scene.waited[stay]), reasons = why(scene, stay), held = stays.gpus[stay];
    return [
      scene.ids[job],
      `${user ? `user ${user}, ` : ""}requests ${size(scene, job)}${!jobs.share[job] && held !== jobs.gpus[job] ? `, holds ${held}` : ""}${stays.servers[stay] > 1 ? `, on ${stays.servers[stay]} servers` : ""}`,
      `submitted ${clock(jobs.submit[job])}; running since ${clock(stays.start[stay])}`,
      waited < 1 ? "did not wait" : `waited ${duration(waited)}${reasons ? `: ${reasons}${stay === scene.own[scene.first[job]] ? "" : ", before this stay"}` : ""}`,
      ...(stays.servers[stay] > 1 ? [`contention now: ${scene.p[stay]}`] : []),
    ];
  };

  // Following a job -------------------------------------------------------------------------------------------------
  const start = (id) => {
    follow = id;
    reveal = id === null ? null : at("story");
    for (const scene of scenes) { const job = id === null ? -1 : scene.ids.indexOf(id); scene.job = job < 0 ? null : job; }
    if (id !== null && !scenes.some((scene) => scene.job !== null)) { follow = null; missing = id; } else missing = "";
    at("missing").textContent = missing && `no job named ${missing}`;
    at("find").value = missing || (follow ?? "");
    ask(true);
  };
  // The jobs that held most GPU time between a job's submission and its first start, as in `ringbco why`.
  const holders = (scene, job) => {
    const { stays, jobs } = scene, first = scene.own[scene.first[job]], from = jobs.submit[job], to = stays.start[first], sums = new Map();
    if (to <= from) return [];
    for (let row = 0; row < stays.rows; row++) {
      const time = Math.min(stays.end[row], to) - Math.max(stays.start[row], from);
      if (time <= 0) continue;
      const other = stays.job[row];
      sums.set(other, (sums.get(other) || 0) + time * stays.gpus[row] * (jobs.share[other] ? jobs.share[other] / 1000 : 1));
    }
    const all = [...sums].sort((a, b) => b[1] - a[1] || (scene.ids[a[0]] < scene.ids[b[0]] ? -1 : 1));
    return all.slice(0, 5).map(([other, time]) => [other, time / (to - from)]);
  };
  // How many jobs were queued when a job was submitted, and how many of them ahead of it.
  const ahead = (scene, job) => {
    const { stays } = scene, first = scene.own[scene.first[job]], at = stays.since[first];
    let before = 0, all = 0;
    for (let row = 0; row < stays.rows; row++) {
      if (row === first || stays.since[row] > at || stays.start[row] <= at) continue;
      all++;
      if (stays.rank[row] < stays.rank[first]) before++;
    }
    return [before, all];
  };
  const beginning = (scene, job) => {
    const held = holders(scene, job), [before, all] = ahead(scene, job), lines = [];
    if (all) lines.push(`${many(all, "job was", "jobs were")} already queued, ${before === all ? "all" : before || "none"} ahead of it (${scene.order}).`);
    if (held.length) lines.push(`While it was queued, most GPUs were held by ${held.map(([other, mean], n) => `${scene.ids[other]} (${Number(mean.toPrecision(3))}${n ? "" : " on average"})`).join(", ")}.`);
    return lines;
  };
  const story = () => {
    const box = at("story");
    box.hidden = follow === null;
    if (follow === null) return;
    box.replaceChildren(element(`h${root.dataset.level}`, `Following ${follow}`, { class: "label" }), ...sides.flatMap(({ scene }) => {
      const { job, stays } = scene;
      if (job === null) return [element("p", `${scene.label}: no such job in this part`)];
      const lane = element("div", "", { class: "lane", role: "img", "aria-label": "when it waits and runs" }), list = document.createElement("ul"), own = scene.own.slice(scene.first[job], scene.first[job + 1]);
      const width = (from, to) => `${(track.share(to) - track.share(from)) * 100}%`, left = (at) => `${track.share(at) * 100}%`;
      for (const row of own) {
        const wait = element("i", "", { class: "wait" }), run = element("i", "", { style: `background:var(${scene.tone})` });
        Object.assign(wait.style, { left: left(stays.since[row]), width: width(stays.since[row], stays.start[row]) });
        Object.assign(run.style, { left: left(stays.start[row]), width: width(stays.start[row], stays.end[row]) });
        lane.append(wait, run);
      }
      const mark = element("i", "", { class: "mark" });
      mark.style.left = left(now);
      lane.append(mark);
      const axis = element("div", "", { class: "axis", "aria-hidden": true });
      for (const [, at, text] of track.marks(box.clientWidth - 28)) axis.append(element("span", text, { style: `left:${at}px` }));
      const keys = element("div", "", { class: "keys" });
      keys.append(key("var(--wait)", "waiting"), key(`var(${scene.tone})`, "running"), key("var(--ink)", "the instant shown", "line"));
      // Of very many stays those around now.
      const here = Math.max(0, own.findLastIndex((row) => stays.since[row] <= now)), from = Math.max(0, Math.min(here - STAYS / 2, own.length - STAYS));
      if (from > 0) list.append(element("li", `${many(from, "stay", "stays")} before`));
      for (const row of own.slice(from, from + STAYS)) {
        const ended = scene.ended[stays.ended[row]], by = scene.who[stays.by[row] - 1], waited = long(stays.start[row] - stays.since[row]);
        const reasons = why(scene, row), current = stays.start[row] <= now && now < stays.end[row];
        const item = element("li", `${waited < 1 ? "" : `waited ${duration(waited)}${reasons ? ` (${reasons})` : ""}, then `}held ${gpus(stays.gpus[row])} on ${many(stays.servers[row], "server", "servers")} from ${clock(stays.start[row])} for ${duration(long(stays.end[row] - stays.start[row]))}; ${ended}${by ? ` by ${by}` : ""}`);
        if (current) item.setAttribute("aria-current", "step");
        list.append(item);
      }
      const after = own.length - from - STAYS;
      if (after > 0) list.append(element("li", `${many(after, "stay", "stays")} after`));
      const lines = scene.jobs.service[job] ? [] : scene.told?.[0] === job ? scene.told[1] : (scene.told = [job, beginning(scene, job)])[1];
      return [element("p", `${scene.label}: ${size(scene, job)}, submitted ${clock(scene.jobs.submit[job])}`), ...lines.map((line) => element("p", line)), keys, lane, axis, list];
    }));
  };

  // Keys of colours --------------------------------------------------------------------------------------------------
  const key = (colour, text, kind = "") => {
    const made = element("span", text), swatch = element("i", "", { class: kind });
    swatch.style.background = colour;
    made.prepend(swatch);
    return made;
  };
  const legend = () => {
    const { scene } = sides[0], there = MODES[mode].key(scene);
    const replicas = scene.jobs.service.some((one) => one) ? [[SERVICE, "replica of a service"]] : [];
    at("key").replaceChildren(
      element("span", mode === "job" ? `Colour: ${differ}.` : `Colour, by ${MODES[mode].text}:`),
      ...[...there, ...replicas, ["var(--idle)", "idle"]].map(([colour, text]) => key(colour, text)),
    );
  };

  // Drawing ---------------------------------------------------------------------------------------------------------
  // Canvases follow every frame; what is text follows five times a second while it plays, and at once when it stops.
  const frame = (time) => {
    waiting = false;
    if (playing) {
      const since = Math.min(time - drawn, still.matches ? 2000 : 100), whole = Number(at("speed").value) * 1000;
      if (!still.matches || time - drawn >= 1000) { now = Math.min(LAST, now + (since / whole) * (track.shown.to - track.shown.from)); drawn = time; }
      if (now >= LAST) play(false);
      ask();
    }
    for (const side of sides) side.draw();
    track.turn(now);
    const place = at("place");
    place.value = (now / LAST) * 1e6;
    place.setAttribute("aria-valuetext", clock(now));
    at("cursor").style.left = `${track.share(now) * 100}%`;
    at("clock").textContent = clock(now);
    if (playing && time - told < 200) return;
    told = time;
    for (const side of sides) side.list();
    story();
    if (!at("table").hidden) at("table").replaceChildren(...sides.flatMap((side) => side.table()));
    if (reveal && !reveal.hidden) reveal.scrollIntoView({ block: reveal.offsetHeight < innerHeight ? "nearest" : "start" });
    reveal = null;
    if (!playing) at("said").textContent = `${clock(now)}. ${sides.map((side) => (sides.length > 1 ? `${side.scene.label}: ${side.state}` : side.state)).join(". ")}.`;
  };
  const track = ringbcoTrack({ root, at, data, LAST, EVENTS, OTHER, tone, key, element, ask: (soon) => ask(soon), move: (tick) => move(tick), keep: (from, to) => { now = Math.min(Math.max(now, from), to); }, sides: () => sides });
  const ask = (soon) => { if (soon) told = 0; if (!waiting) { waiting = true; requestAnimationFrame(frame); } };
  const move = (tick) => { if (root.dataset.ready !== undefined) at("why").textContent = ""; now = Math.max(0, Math.min(LAST, tick)); ask(true); };
  const play = (on) => {
    playing = on;
    at("why").textContent = "";
    if (on && now >= LAST) now = 0;
    drawn = performance.now();
    at("play").textContent = on ? "Pause" : "Play";
    at("play").setAttribute("aria-pressed", on);
    ask(true);
  };
  const event = (way) => {
    const times = sides.flatMap(({ scene }) => Array.from(scene.events, (row) => scene.stays.end[row])).filter((tick) => (way > 0 ? tick > now : tick < now));
    if (times.length) move(way > 0 ? times.reduce((a, b) => Math.min(a, b)) : times.reduce((a, b) => Math.max(a, b)));
  };

  // Handling --------------------------------------------------------------------------------------------------------
  const stride = (far) => (track.shown.to - track.shown.from) / (far ? 50 : 600);
  const KEYS = {
    " ": () => play(!playing), ArrowRight: (far) => move(now + stride(far)), ArrowLeft: (far) => move(now - stride(far)),
    "+": () => track.zoom(1 / 4, now), "-": () => track.zoom(4, now), a: () => track.all(),
    Home: () => move(0), End: () => move(LAST), n: () => event(1), p: () => event(-1), Escape: () => start(null),
    f: () => { at("find").focus(); at("find").select(); }, t: () => at("as-table").click(),
  };
  const handle = () => {
    // Where the page is the player its keys work wherever the focus is; in a report, once the player has it.
    const alone = root.parentElement.tagName === "MAIN";
    (alone ? document : root).addEventListener("keydown", (event) => {
      const kind = event.target.tagName, typing = kind === "SELECT" || (kind === "INPUT" && event.target.type !== "range");
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (typing && event.key !== "Escape") return;
      if (kind === "BUTTON" && event.key === " ") return;
      const act = KEYS[event.key];
      if (!act) return;
      event.preventDefault();
      act(event.shiftKey);
    });
    at("play").addEventListener("click", () => play(!playing));
    at("next").addEventListener("click", () => event(1));
    at("place").addEventListener("input", () => move((at("place").value / 1e6) * LAST));
    at("colour").addEventListener("change", () => { mode = at("colour").value; legend(); ask(true); });
    at("layout").addEventListener("change", resize);
    const find = () => start(at("find").value.trim() || null);
    at("find").addEventListener("change", find);
    at("find").addEventListener("keydown", ({ key }) => { if (key === "Enter") find(); }); // the same name again is no change
    at("as-table").addEventListener("click", () => { const table = at("table"); table.hidden = !table.hidden; at("as-table").setAttribute("aria-expanded", !table.hidden); reveal = table.hidden ? null : table; ask(true); });
    root.addEventListener("click", (event) => { const job = event.target.closest("[data-job]"); if (job) start(job.dataset.job); });
    root.querySelectorAll("[data-side]").forEach((select) => select.addEventListener("change", () => { sides[Number(select.dataset.side)].show(scenes[Number(select.value)]); legend(); track.draw(); start(follow); }));
    addEventListener("resize", resize);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", resize);
  };
  const resize = () => { for (const side of sides) side.fit(); track.draw(); ask(true); };

  // Where the page opens: in the middle of the longest queue or, if no jobs wait, where most GPUs are busy.
  const busiest = () => {
    const { from, to } = track.shown, { queued, busy } = track.means(sides[0].scene, from, to), most = Math.max(...queued), values = most > 0 ? queued : busy;
    at("why").textContent = `Opened ${most > 0 ? "at the longest queue" : "where most GPUs are busy"}${sides.length > 1 ? ` of ${sides[0].scene.label}` : ""}.`;
    return from + ((values.indexOf(Math.max(...values)) + 0.5) / values.length) * (to - from);
  };
  const begin = async () => {
    try {
      for (const told of data.results) scenes.push(await load(told));
    } catch (error) {
      at("said").textContent = `This browser cannot unpack the page's data (${error.message}).`;
      return;
    }
    differ = paint(scenes);
    const boxes = [...root.querySelectorAll(".side")];
    root.classList.remove("loading");
    sides = boxes.map((box, n) => new Side(scenes[n], box));
    for (const [name, { text, there }] of Object.entries(MODES)) if (!there || scenes.some(there)) at("colour").append(element("option", text, { value: name }));
    handle();
    legend();
    track.handle();
    track.open();
    move(busiest());
    window.ringbcoPlayer = { scenes: () => scenes, move, play, last: LAST, track, series: (side, from = 0, to = LAST) => track.means(sides[side].scene, from, to), frame: () => sides.forEach((side) => side.draw()) };
    root.dataset.ready = "";
  };
  requestAnimationFrame(() => setTimeout(begin));
})();
