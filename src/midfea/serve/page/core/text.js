// Numbers, times and sizes as text.

const grouped = new Intl.NumberFormat("en");

/** @param {number} value */
export const number = (value) => grouped.format(value);

/** @param {number} share */
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;

/** The probability of a predicted class: only certainty is 100%. @param {number} share */
export const confidence = (share) => (share < 1 && share > 0.995 ? ">99%" : percent(share));

/**
 * "1 image", "2 images".
 * @param {number} n
 * @param {string} one
 */
export function count(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** "25 s", "3 min 20 s", "1 h 5 min" @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 600 && whole % 60) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(whole / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** The time of day, with the date if it was another day. @param {string} iso */
export function moment(iso, now = new Date()) {
  const when = new Date(iso);
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return when.toDateString() === now.toDateString() ? time : `${when.toLocaleDateString()} ${time}`;
}

/** "12 kB", "3.4 MB" @param {number} n */
export function bytes(n) {
  if (n < 1e6) return `${Math.max(1, Math.round(n / 1e3))} kB`;
  return n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(1)} GB`;
}

/** The first names of a list. @param {string[]} names */
export const shortList = (names, most = 12) => names.slice(0, most).join(", ") + (names.length > most ? " …" : "");
