// The colours of the player. A job has one colour in all results, and jobs that run at the same time differ as far as
// the colours go: gangs choose before jobs of one GPU, and longer ones before shorter ones. A job for which no colour
// is left takes one that no job beside it has: on the same server, or on an adjacent one.
const ringbcoColours = (long, sorted) => {
  "use strict";
  // From a sample of sRGB, each the farthest in OKLab from those before it, and from paper, idle GPUs and greys.
  const JOBS = "0870b0 a0d000 800088 f888f8 a80000 f86020 18a018 d04098 006000 00d8d8 9060e8 f8b060 b0b8f8 1098f8 684828 b09800 4038a8 b06000 e890a0 005860 58b880 687810 904068 b0d8a0 c078c8 d03848 00e890 7850a8 009878 00b0c8 f85880 f8b0e0 584870 9090f8 4868e8 b86880 c88860 b0b080 007858 68b808 a840b8 6880c8 e8c800 0090b0 58c0f8 b81060 f868c0 900048 809050 984830 005090 9868b0 98d0e0 f08800 008000 b898c0 0050c8 c898f8 806840 e8b8a8 6048d0 506028 70a0d8 a02088".split(" ").map((hex) => `#${hex}`);
  const NAMED = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#7A5FB0", "#8C564B", "#4E9A3C"];
  // Neighbours, and the first and an idle GPU, have a contrast of at least 1.6:1 in both themes.
  const RAMP = ["#A3BFDD", "#6996C7", "#3A6FA8", "#1C4A80", "#F2B04A", "#DC7426", "#A8321A"];
  const OTHER = "#9AA3AE", SERVICE = "#6F7782";
  const EVENTS = { preempted: "#E69F00", moved: "#56B4E9", resized: "#009E73", evicted: "#CC79A7", failed: "#D55E00", rung: "#7A5FB0", limit: "#8C564B", dropped: "#8A8A8A" };
  const SIZES = [[1, "1"], [4, "2–4"], [8, "5–8"], [16, "9–16"], [32, "17–32"], [Infinity, "33+"]];
  const WAITS = [[1, "no wait"], [60, "up to 1 min"], [600, "10 min"], [3600, "1 h"], [21600, "6 h"], [86400, "1 d"], [Infinity, "longer"]];
  const CROWDS = ["on one server", "spans servers, shares with none", "with 1 other", "with 2 or 3", "with 4+"];
  const SHARES = [[250, "up to 0.25"], [500, "0.5"], [750, "0.75"], [1000, "less than 1"]];

  // Jobs --------------------------------------------------------------------------------------------------------------
  const hashed = (id) => { let hash = 7; for (let i = 0; i < id.length; i++) hash = (Math.imul(hash, 31) + id.charCodeAt(i)) >>> 0; return Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 16; };
  // The instants at which one colour is taken in one result: stays that do not overlap, in order.
  const after = (starts, instant) => { let low = 0, high = starts.length; while (low < high) { const middle = (low + high) >> 1; if (starts[middle] < instant) low = middle + 1; else high = middle; } return low; };
  const free = ({ starts, ends }, start, end) => { const next = after(starts, end); return next === 0 || ends[next - 1] <= start; };
  const take = ({ starts, ends }, start, end) => { const next = after(starts, start); starts.splice(next, 0, start); ends.splice(next, 0, end); };
  // Of jobs without a colour of their own those that run beside them, by scene.byStart, in which rows begin.
  const beside = (scene, without, found) => {
    const { held, stays, servers, number: numbers } = scene, active = servers.gpus.map(() => []);
    for (const row of scene.byStart) {
      const server = held.server[row], stay = held.stay[row], job = numbers[stays.job[stay]], start = stays.start[stay];
      if (scene.jobs.service[stays.job[stay]] || stays.end[stay] <= start) continue;
      for (let near = Math.max(0, server - 1); near <= server + 1 && near < active.length; near++) {
        const rows = active[near];
        let kept = 0;
        for (let n = 0; n < rows.length; n++) {
          const other = rows[n];
          if (stays.end[other] <= start) continue;
          rows[kept++] = other;
          const there = numbers[stays.job[other]];
          if (there === job) continue;
          if (without[job]) found[job].push(there);
          if (without[there]) found[there].push(job);
        }
        rows.length = kept;
      }
      active[server].push(stay);
    }
  };
  // Gives each scene `hue`, the place in JOBS of each of its jobs; and says in words who differs.
  const paint = (scenes) => {
    const known = new Map(), gangs = [], time = [], parts = [];
    for (const scene of scenes) {
      scene.number = Uint32Array.from(scene.ids, (id, job) => {
        const key = `${scene.jobs.service[job]}${id}`;
        if (!known.has(key)) { known.set(key, known.size); gangs.push(0); time.push(0); parts.push([]); }
        const number = known.get(key);
        if (scene.jobs.service[job]) return number;
        parts[number].push([scene, job]);
        for (let i = scene.first[job]; i < scene.first[job + 1]; i++) {
          time[number] += scene.stays.end[scene.own[i]] - scene.stays.start[scene.own[i]];
          if (scene.stays.gpus[scene.own[i]] > 1) gangs[number] = 1;
        }
        return number;
      });
    }
    const order = sorted(known.size, (number) => -time[number] - gangs[number] * 2 ** 52).filter((number) => time[number] > 0);
    const first = Uint16Array.from(known.keys(), hashed), hue = new Uint8Array(known.size), without = new Uint8Array(known.size), left = [];
    const taken = new Map(scenes.map((scene) => [scene, JOBS.map(() => ({ starts: [], ends: [] }))]));
    const each = (number, act) => parts[number].every(([scene, job]) => { for (let i = scene.first[job]; i < scene.first[job + 1]; i++) { const stay = scene.own[i], start = scene.stays.start[stay], end = scene.stays.end[stay]; if (start < end && !act(taken.get(scene), start, end)) return false; } return true; });
    for (const number of order) {
      // Single GPUs that find none are many where some are: after so many none is sought.
      let colour = gangs[number] || left.length < 2000 ? 0 : JOBS.length;
      while (colour < JOBS.length && !each(number, (colours, start, end) => free(colours[colour], start, end))) colour++;
      if (colour === JOBS.length) { left.push(number); without[number] = 1; continue; }
      hue[number] = colour;
      each(number, (colours, start, end) => { take(colours[colour], start, end); return true; });
    }
    let clashes = 0;
    // Where all colours are beside a job it takes the least of them, and those that have it choose again.
    for (let round = 0, again = left; again.length && round < 4; round++) {
      for (const number of again) without[number] = 1;
      const found = Array.from(without, (is) => (is ? [] : null)), next = new Set();
      for (const scene of scenes) beside(scene, without, found);
      for (const number of again) {
        const near = new Uint32Array(JOBS.length);
        for (const other of found[number]) if (!without[other]) near[hue[other]]++;
        let colour = first[number] % JOBS.length;
        for (let tries = 0, other = colour; tries < JOBS.length && near[colour]; tries++) { other = (other + 1) % JOBS.length; if (near[other] < near[colour]) colour = other; }
        hue[number] = colour;
        without[number] = 0;
        if (near[colour]) for (const other of found[number]) if (hue[other] === colour && !without[other]) next.add(other);
      }
      again = [...next];
      clashes = again.length;
    }
    for (const scene of scenes) scene.hue = scene.number.map((number) => hue[number]);
    if (!left.length) return "one per job; jobs that run at the same time differ";
    return `by job; jobs on the same or adjacent servers ${clashes ? "nearly always " : ""}differ`;
  };

  // What a colour may mean --------------------------------------------------------------------------------------------
  const step = (classes, value) => classes.findIndex(([end]) => value <= end);
  const crowd = (p) => (p > 4 ? 4 : p > 2 ? 3 : p);
  const MODES = {
    job: { text: "job", of: (scene, stay) => JOBS[scene.hue[scene.stays.job[stay]]], key: () => [] },
    user: {
      text: "user", there: (scene) => scene.users.length > 1,
      of: (scene, stay) => NAMED[scene.shade.get(scene.jobs.user[scene.stays.job[stay]])] || OTHER,
      key: (scene) => [...[...scene.shade].map(([user, shade]) => [NAMED[shade], scene.users[user - 1]]), [OTHER, "others"]],
    },
    size: {
      text: "size", of: (scene, stay) => RAMP[step(SIZES, scene.jobs.gpus[scene.stays.job[stay]])],
      key: () => SIZES.map(([, name], n) => [RAMP[n], `${name} ${n ? "GPUs" : "GPU"}`]),
    },
    waited: {
      text: "wait so far", of: (scene, stay) => RAMP[step(WAITS, long(scene.waited[stay]))],
      key: () => WAITS.map(([, name], n) => [RAMP[n], name]),
    },
    contention: {
      text: "contention met", of: (scene, stay) => (scene.stays.servers[stay] > 1 ? RAMP[[0, 2, 4, 5, 6][crowd(scene.p[stay])]] : RAMP[0]),
      key: () => CROWDS.map((name, n) => [RAMP[[0, 2, 4, 5, 6][n]], name]),
    },
    type: {
      text: "GPU type", there: (scene) => scene.servers.gpu_type,
      of: (scene, _stay, server) => NAMED[scene.types.indexOf(scene.servers.gpu_type[server]) % 10],
      key: (scene) => scene.types.map((name, n) => [NAMED[n % 10], name]),
    },
    share: {
      text: "share of a GPU", there: (scene) => scene.jobs.share.some((share) => share > 0),
      of: (scene, stay) => { const share = scene.jobs.share[scene.stays.job[stay]]; return share ? RAMP[3 + step(SHARES, share)] : RAMP[1]; },
      key: () => [[RAMP[1], "whole GPUs"], ...SHARES.map(([, name], n) => [RAMP[3 + n], name])],
    },
  };
  return { EVENTS, MODES, OTHER, SERVICE, paint };
};
