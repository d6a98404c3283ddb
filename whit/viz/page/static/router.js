// Where in the page one is: what stands behind the "#", so that every view has an address that can be sent to others.

/** The parts of the address: "#/kernel/3/pass/2" -> ["kernel", "3", "pass", "2"]. */
export function parts() {
  return window.location.hash
    .replace(/^#\/?/, "")
    .split("/")
    .filter((part) => part !== "")
    .map(decoded);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** An address: link("kernel", 3) -> "#/kernel/3". */
export function link(...path) {
  return `#/${path.map((part) => encodeURIComponent(part)).join("/")}`;
}

/** Goes there; `replace` leaves no trace in the history, for what changes with every key. */
export function go(address, replace = false) {
  if (window.location.hash === address) return;
  if (replace) {
    window.history.replaceState(null, "", address);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    window.location.hash = address;
  }
}

/** The number that follows a word in the address, if it is one. */
export function numberAfter(path, word) {
  const at = path.indexOf(word);
  const value = at >= 0 ? Number(path[at + 1]) : NaN;
  return Number.isInteger(value) && value >= 0 ? value : null;
}
