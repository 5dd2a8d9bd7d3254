"use strict";
(async () => {
  const facts = JSON.parse(document.getElementById("search-data").textContent);
  const get = (id) => document.getElementById(id);
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  };
  const lines = async (text) => new TextDecoder().decode(await unpacked(text)).split("\n");
  const matrix = async ({ rows, values, scales }) => {
    const whole = new Int8Array(await unpacked(values));
    return { rows, columns: whole.length / rows, values: whole, scales: new Float32Array(await unpacked(scales)) };
  };

  // scikit-learn's HashingVectorizer: MurmurHash3, 32 bits, seed 0; all letters are ASCII here.
  const hashed = (gram) => {
    const byte = (at) => gram.charCodeAt(at), whole = gram.length & ~3;
    const mixed = (k) => {
      k = Math.imul(k, 0xcc9e2d51);
      return Math.imul((k << 15) | (k >>> 17), 0x1b873593);
    };
    let hash = 0;
    for (let at = 0; at < whole; at += 4) {
      hash ^= mixed(byte(at) | (byte(at + 1) << 8) | (byte(at + 2) << 16) | (byte(at + 3) << 24));
      hash = (Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64) | 0;
    }
    let rest = 0;
    for (let at = gram.length - 1; at >= whole; at--) rest = (rest << 8) | byte(at);
    hash ^= mixed(rest) ^ gram.length;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return Math.abs(hash ^ (hash >>> 16)) % facts.bucketCount;
  };
  const wordsOf = (text) =>
    (text.match(/[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+/g) || []).map((word) => word.toLowerCase());
  const counted = (words) => {
    const counts = new Map(), [shortest, longest] = facts.ngrams;
    for (const word of words) {
      const padded = ` ${word} `;
      for (let size = shortest; size <= longest; size++) {
        const last = Math.max(0, padded.length - size);
        for (let at = 0; at <= last; at++) {
          const bucket = hashed(padded.slice(at, at + size));
          counts.set(bucket, (counts.get(bucket) || 0) + 1);
        }
        if (last === 0) break; // a short word counts once
      }
    }
    return counts;
  };

  const unit = (vector) => {
    const norm = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
    return norm > 0 ? vector.map((value) => value / norm) : null;
  };
  const product = ({ rows, columns, values, scales }, vector) =>
    Float64Array.from({ length: rows }, (_, row) => {
      let sum = 0;
      for (let at = 0, from = row * columns; at < columns; at++) sum += values[from + at] * vector[at];
      return sum * scales[row];
    });
  const featuresOf = (words) => {
    const { columns, values, scales } = index.table, sum = new Float64Array(columns);
    for (const [bucket, count] of counted(words)) {
      const row = index.rowOf.get(bucket);
      if (row === undefined) continue;
      const weight = (1 + Math.log(count)) * scales[row];
      for (let at = 0; at < columns; at++) sum[at] += weight * values[row * columns + at];
    }
    return unit(sum);
  };
  const found = (tower, features) => {
    let hidden = features;
    tower.layers.forEach((layer, at) => {
      hidden = product(layer, [...(at ? hidden.map((value) => Math.max(0, value)) : hidden), 1]);
    });
    const cosines = product(tower.answers, unit(hidden));
    return [...cosines.keys()].sort((a, b) => cosines[b] - cosines[a] || a - b).slice(0, 5).map((at) => [at, cosines[at]]);
  };

  function draw() {
    const words = wordsOf(get("question").value);
    const features = words.length ? featuresOf(words) : null;
    get("ask-note").textContent = words.length && !features ? "No function here has any of these letters." : "";
    get("answers").replaceChildren(
      ...(features ? index.towers : []).map((tower) => {
        const list = element("ol");
        for (const [at, cosine] of found(tower, features)) {
          const name = element("code", { textContent: index.names[at] });
          const item = element("li", {}, name, ` ${cosine.toFixed(2)}`);
          if (at >= facts.learnt) item.append(" ", element("span", { className: "flag class", textContent: "new" }));
          item.append(element("span", { className: "words", textContent: index.texts[at] }));
          list.append(item);
        }
        return element("div", {}, element("h3", { textContent: tower.label }), list);
      }),
    );
  }

  const index = {
    names: await lines(facts.names),
    texts: await lines(facts.texts),
    table: await matrix(facts.table),
    rowOf: new Map([...new Uint16Array(await unpacked(facts.buckets))].map((bucket, row) => [bucket, row])),
    towers: await Promise.all(
      facts.towers.map(async ({ label, layers, answers }) => ({
        label,
        layers: await Promise.all(layers.map(matrix)),
        answers: await matrix(answers),
      })),
    ),
  };
  get("samples").replaceChildren(
    ...facts.questions.map((question) => {
      const button = element("button", { type: "button", textContent: question });
      button.addEventListener("click", () => {
        get("question").value = question;
        draw();
      });
      return element("li", {}, button);
    }),
  );
  get("ask-form").addEventListener("submit", (event) => event.preventDefault());
  get("question").addEventListener("input", draw);
  get("question").disabled = false;
  get("question").value = facts.questions[0] || "";
  draw();
})();
