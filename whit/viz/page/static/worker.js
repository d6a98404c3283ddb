// Layouts in the background.
import { layout } from "./layout.js";

self.onmessage = ({ data }) => {
  const { ticket, count, widths, pairs } = data;
  self.postMessage({ ticket, placed: layout(count, widths, pairs) });
};
