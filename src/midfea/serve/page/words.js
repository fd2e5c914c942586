// Numbers, times and sizes as words.

const grouped = new Intl.NumberFormat("en");

export const number = (value) => grouped.format(value);
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;

/** Of an answer: only certainty is 100%. */
export const sure = (share) => (share < 1 && share > 0.995 ? ">99%" : percent(share));

export function count(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** "25 s", "3 min 20 s", "1 h 5 min" */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 600 && whole % 60) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 3600) return `${Math.round(whole / 60)} min`;
  return `${Math.floor(whole / 3600)} h ${Math.round((whole % 3600) / 60)} min`;
}

/** The time of day, with the date if it was another day. */
export function moment(iso) {
  const when = new Date(iso);
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return when.toDateString() === new Date().toDateString() ? time : `${when.toLocaleDateString()} ${time}`;
}

export function bytes(n) {
  if (n < 1e6) return `${Math.max(1, Math.round(n / 1e3))} kB`;
  return n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(1)} GB`;
}
