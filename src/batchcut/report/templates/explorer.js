"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const get = (id) => document.getElementById(id);
  const row = new Map(data.samples.map((sample, at) => [sample, at]));
  const state = { plan: data.plans.length - 1, kind: data.kinds[0], batch: 0, sample: null };

  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const planName = (plan) => `${plan.label}, epoch ${plan.epoch}`;
  const capital = (word) => word[0].toUpperCase() + word.slice(1);
  const batchesOf = (plan, kind) => plan.batches.filter((batch) => batch.kind === kind);
  const labelOf = (sample) => (data.labels ? data.labels[row.get(sample)] : null);
  const textOf = (sample) => (data.texts ? data.texts[row.get(sample)] : "");

  const unpacked = new WeakMap();
  const pairs = (batch) => {
    if (!unpacked.has(batch)) unpacked.set(batch, { weights: bytes(batch.weights), bits: bytes(batch.suspects) });
    return unpacked.get(batch);
  };
  const place = (size, i, j) => {
    const [k, l] = i < j ? [i, j] : [j, i];
    return k * size - (k * (k + 1)) / 2 + l - k - 1;
  };
  const weight = (batch, top, i, j) => (pairs(batch).weights[place(batch.members.length, i, j)] / 255) * top;
  const suspect = (batch, i, j) => {
    const at = place(batch.members.length, i, j);
    return Boolean((pairs(batch).bits[at >> 3] >> (7 - (at & 7))) & 1);
  };

  const thumb = (sample) => {
    const made = element("span", { className: "thumb" });
    const at = row.get(sample), { columns, rows } = data.sheet;
    made.setAttribute("aria-hidden", "true");
    made.style.backgroundSize = `${columns * 100}% ${rows * 100}%`;
    const x = columns > 1 ? ((at % columns) / (columns - 1)) * 100 : 0;
    const y = rows > 1 ? (Math.floor(at / columns) / (rows - 1)) * 100 : 0;
    made.style.backgroundPosition = `${x}% ${y}%`;
    return made;
  };
  const describe = (sample) => {
    const label = labelOf(sample), text = textOf(sample);
    return `sample ${sample}${label === null ? "" : `, class ${label}`}${text ? `: ${text}` : ""}`;
  };
  const flag = (name, sign) => {
    const made = element("span", { className: `flag ${name}`, textContent: sign });
    made.setAttribute("aria-hidden", "true");
    return made;
  };

  const current = () => {
    const plan = data.plans[state.plan];
    return { plan, batch: batchesOf(plan, state.kind)[state.batch] };
  };

  const fill = (select, names, chosen) => {
    select.replaceChildren(...names.map((name, at) => new Option(name, at, false, at === chosen)));
  };

  function drawControls() {
    const { plan } = current();
    const kinds = data.kinds.filter((kind) => batchesOf(plan, kind).length);
    fill(get("plan"), data.plans.map(planName), state.plan);
    get("kind").replaceChildren(
      ...kinds.map((kind) => new Option(`${capital(kind)} (${batchesOf(plan, kind).length})`, kind, false, kind === state.kind)),
    );
    const names = batchesOf(plan, state.kind).map((batch, at) =>
      batch.number === null ? `${at + 1}, loss ${batch.loss.toFixed(3)}` : `${batch.number + 1}, loss ${batch.loss.toFixed(3)}`,
    );
    fill(get("batch"), names, state.batch);
    get("previous").disabled = state.batch === 0;
    get("next").disabled = state.batch === names.length - 1;
  }

  function drawBatch() {
    const { plan, batch } = current();
    const chosen = batch.members.indexOf(state.sample);
    const name = batch.number === null ? `Shuffled batch ${state.batch + 1}` : `Batch ${batch.number + 1} of ${plan.count}`;
    get("batch-title").textContent = `${name}, ${planName(plan)}`;
    let marked = 0;
    batch.members.forEach((_, i) => batch.members.forEach((__, j) => (marked += j > i && suspect(batch, i, j))));
    const all = (batch.members.length * (batch.members.length - 1)) / 2;
    const rank = batch.number === null ? "" : `, number ${plan.ranks[batch.number]} of ${plan.count} from the hardest`;
    get("batch-facts").textContent =
      `Loss ${batch.loss.toFixed(3)}${rank}. ${marked} of ${all} pairs are suspected false negatives.`;
    get("members").className = data.texts ? "members words" : "members";
    get("members").replaceChildren(
      ...batch.members.map((sample, at) => {
        const pressed = at === chosen;
        const button = element("button", { type: "button" });
        button.dataset.sample = sample;
        button.setAttribute("aria-pressed", String(pressed));
        const notes = [];
        if (data.sheet) button.append(thumb(sample));
        button.append(element("span", { textContent: data.texts ? `${sample}: ${textOf(sample)}` : String(sample) }));
        if (!pressed && suspect(batch, at, chosen)) {
          notes.push("suspected false negative of the chosen sample");
          button.append(flag("", "?"));
        }
        if (!pressed && data.labels && labelOf(sample) === labelOf(state.sample)) {
          notes.push("same class as the chosen sample");
          button.append(flag("class", "="));
        }
        button.setAttribute("aria-label", [describe(sample), ...notes].join(", "));
        return element("li", {}, button);
      }),
    );
    drawNeighbours(plan, batch, chosen);
    drawMatrix(plan, batch, chosen);
  }

  function drawNeighbours(plan, batch, chosen) {
    get("sample-title").textContent = `Hardest to tell from sample ${state.sample}`;
    const others = batch.members
      .map((sample, at) => ({ sample, at }))
      .filter(({ at }) => at !== chosen)
      .map((one) => ({ ...one, weight: weight(batch, plan.top, chosen, one.at), suspect: suspect(batch, chosen, one.at) }))
      .sort((a, b) => b.weight - a.weight);
    const doubtful = others.filter((one) => one.suspect).length;
    get("sample-facts").textContent =
      `${capital(describe(state.sample))}. ${doubtful} of ${others.length} others are suspected false negatives.`;
    get("neighbours").replaceChildren(
      ...others.map((one) => {
        const label = labelOf(one.sample);
        const words = element("span", { className: "words" });
        const title = textOf(one.sample) || (label === null ? "" : `class ${label}`);
        words.append(`${one.sample}${title ? `, ${title}` : ""}: weight ${one.weight.toFixed(2)} `);
        if (one.suspect) words.append(flag("", "?"), element("span", { className: "hidden", textContent: " suspected" }));
        if (label !== null && label === labelOf(state.sample)) words.append(" ", flag("class", "="));
        const bar = element("span", { className: "bar" });
        bar.style.width = `${Math.max(1, (one.weight / plan.top) * 100)}%`;
        words.append(bar);
        return element("li", {}, ...(data.sheet ? [thumb(one.sample)] : []), words);
      }),
    );
  }

  function drawMatrix(plan, batch, chosen) {
    const size = batch.members.length, canvas = get("matrix");
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const [from, to] = dark ? [[29, 33, 38], [124, 188, 255]] : [[245, 246, 248], [8, 64, 129]];
    const image = context.createImageData(size, size);
    let heaviest = [0, 1], sum = 0;
    for (let i = 0; i < size; i++) {
      for (let j = 0; j < size; j++) {
        const share = i === j ? 0 : weight(batch, 1, i, j);
        const marked = i !== j && suspect(batch, i, j);
        const tint = marked ? (dark ? [255, 179, 138] : [178, 88, 6]) : to;
        const at = 4 * (i * size + j);
        for (let c = 0; c < 3; c++) image.data[at + c] = from[c] + share * (tint[c] - from[c]);
        image.data[at + 3] = 255;
        if (i < j) {
          sum += share;
          if (share > weight(batch, 1, ...heaviest)) heaviest = [i, j];
        }
      }
    }
    context.putImageData(image, 0, 0);
    const [k, l] = heaviest.map((at) => batch.members[at]);
    const mean = (sum / ((size * (size - 1)) / 2)) * plan.top;
    get("matrix-note").textContent =
      `Mean weight ${mean.toFixed(2)}; the heaviest pair is ${k} and ${l} with ${weight(batch, plan.top, ...heaviest).toFixed(2)}. ` +
      `Members in the order of the batch; brown where a false negative is suspected.`;
  }

  function show(change) {
    Object.assign(state, change);
    const plan = data.plans[state.plan];
    if (!batchesOf(plan, state.kind).length) state.kind = data.kinds.find((kind) => batchesOf(plan, kind).length);
    state.batch = Math.max(0, Math.min(state.batch, batchesOf(plan, state.kind).length - 1));
    const { batch } = current();
    if (!batch.members.includes(state.sample)) state.sample = batch.members[0];
    drawControls();
    drawBatch();
  }

  function numbersFor(words) {
    if (/^\d+$/.test(words)) return [Number(words)];
    if (!data.texts) return [];
    const wanted = words.toLowerCase();
    return data.samples.filter((_, at) => data.texts[at].toLowerCase().includes(wanted)).slice(0, 20);
  }

  function find() {
    const words = get("search").value.trim();
    if (!words) return get("found").replaceChildren();
    const numbers = numbersFor(words), buttons = [], elsewhere = [];
    for (const sample of numbers) {
      data.plans.forEach((plan, at) => {
        const held = plan.batches.filter((batch) => batch.members.includes(sample));
        for (const batch of held) {
          const name = batch.number === null ? "a shuffled batch" : `batch ${batch.number + 1}`;
          const button = element("button", { type: "button", textContent: `${sample} in ${name}, ${batch.kind}: ${planName(plan)}` });
          button.addEventListener("click", () => {
            show({ plan: at, kind: batch.kind, batch: batchesOf(plan, batch.kind).indexOf(batch), sample });
            get("members").querySelector("[aria-pressed=true]").focus();
          });
          buttons.push(element("li", {}, button));
        }
        if (!held.some((batch) => batch.number !== null) && plan.place) {
          const places = new Uint16Array(bytes(plan.place).buffer);
          if (sample >= places.length) return;
          const number = places[sample];
          elsewhere.push(
            number === 0
              ? `${planName(plan)}: in no batch`
              : `${planName(plan)}: batch ${number}, loss ${plan.losses[number - 1].toFixed(3)}, number ${plan.ranks[number - 1]} of ${plan.count} from the hardest, not kept`,
          );
        }
      });
    }
    const text = buttons.length || elsewhere.length ? elsewhere.join("; ") : `No batch here holds ${words}.`;
    get("found").replaceChildren(
      ...(text ? [element("p", { textContent: text })] : []),
      ...(buttons.length ? [element("ul", {}, ...buttons)] : []),
    );
  }

  get("plan").addEventListener("change", (event) => show({ plan: Number(event.target.value) }));
  get("kind").addEventListener("change", (event) => show({ kind: event.target.value, batch: 0 }));
  get("batch").addEventListener("change", (event) => show({ batch: Number(event.target.value) }));
  get("previous").addEventListener("click", () => show({ batch: state.batch - 1 }));
  get("next").addEventListener("click", () => show({ batch: state.batch + 1 }));
  get("search").addEventListener("input", find);
  get("controls").addEventListener("submit", (event) => event.preventDefault());
  get("members").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    show({ sample: Number(button.dataset.sample) });
    get("members").querySelector("[aria-pressed=true]").focus();
  });
  get("members").addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1 };
    if (!(event.key in moves)) return;
    const buttons = [...get("members").querySelectorAll("button")];
    const next = buttons[buttons.indexOf(document.activeElement) + moves[event.key]];
    if (next) next.focus();
    event.preventDefault();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show({}));
  show({});
})();
