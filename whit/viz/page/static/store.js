// Documents by name: from the server, or out of the page itself where it was exported. Each is asked for once.

const cache = new Map();
const embedded = document.getElementById("documents");
const packed = embedded ? JSON.parse(embedded.textContent) : null;

/** A document, or an error that says what is missing. */
export function get(name) {
  if (!cache.has(name)) {
    const promise = packed ? unpack(name) : fetched(name);
    cache.set(name, promise);
    promise.catch(() => cache.delete(name));
  }
  return cache.get(name);
}

/** Whether this is a file without a server. */
export const isExported = packed !== null;

/** What an exported file does not have. */
export const leftOut = packed ? packed.left_out : [];

async function fetched(name) {
  let answer;
  try {
    answer = await fetch(`/data/${name}.json`);
  } catch {
    throw new Error("The server does not answer. Start it again: python -m whit viz FILE --serve");
  }
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error || `${name}: ${answer.status}`);
  return data;
}

async function unpack(name) {
  const text = Object.hasOwn(packed.documents, name) ? packed.documents[name] : null;
  if (text === null) {
    const known = packed.left_out.includes(name);
    throw new Error(known ? `${name} was left out of this file, which would be too large` : `there is no ${name}`);
  }
  const data = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
