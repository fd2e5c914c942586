// Files by class: which folders of dropped or chosen files are classes, as `midfea train` sees a folder.

/**
 * A file and the folders that lead to it.
 * @template {{name: string, type: string}} F
 * @typedef {{file: F, path: string[]}} FoundFile
 */

const SYSTEM_FILE = /^(\.|thumbs\.db$|desktop\.ini$|__macosx$)/i;

/** Whether a file or folder was made by the operating system. @param {string} name */
export const isSystemFile = (name) => SYSTEM_FILE.test(name);

/**
 * Whether a file is named, or known to the browser, as an image.
 * @param {{name: string, type: string}} file
 * @param {string[]} endings of image files, such as ".png"
 */
export function isImage(file, endings) {
  const ending = file.name.slice(file.name.lastIndexOf(".")).toLowerCase();
  return endings.includes(ending) || file.type.startsWith("image/");
}

/**
 * Files by class; `loose` are images in no folder, `others` files in folders that are no images.
 *
 * A folder with images in it is a class. Each folder in a folder without images is a class, with all that
 * lies deeper. A folder that holds nothing but one folder is only a wrapping.
 * @template {{name: string, type: string}} F
 * @param {FoundFile<F>[]} files
 * @param {string[]} endings of image files
 */
export function groupByClass(files, endings) {
  /** @type {Map<string, F[]>} */
  const classes = new Map();
  // A single file was chosen by hand: the server says why it is refused.
  const images = files.filter(({ file, path }) => !path.length || isImage(file, endings));
  const others = files.filter(({ file, path }) => path.length && !isImage(file, endings));
  const roots = groups(images.filter(({ path }) => path.length), ({ path }) => path[0]);
  for (const inside of roots.values()) sort(inside, 0, classes);
  return {
    classes,
    loose: images.filter(({ path }) => !path.length).map(({ file }) => file),
    others: others.map(({ file }) => file),
  };
}

/**
 * Sort files that share the first `depth` + 1 folders into classes.
 * @template {{name: string, type: string}} F
 * @param {FoundFile<F>[]} files
 * @param {number} depth
 * @param {Map<string, F[]>} classes
 */
function sort(files, depth, classes) {
  const add = (/** @type {string} */ name, /** @type {FoundFile<F>[]} */ members) =>
    classes.set(name, [...(classes.get(name) ?? []), ...members.map(({ file }) => file)]);
  if (files.some(({ path }) => path.length === depth + 1)) {
    add(files[0].path[depth], files);
    return;
  }
  const below = groups(files, ({ path }) => path[depth + 1]);
  if (below.size === 1) sort(files, depth + 1, classes);
  else for (const [name, inside] of below) add(name, inside);
}

/**
 * @template T
 * @param {T[]} values
 * @param {(value: T) => string} keyOf
 */
function groups(values, keyOf) {
  /** @type {Map<string, T[]>} */
  const map = new Map();
  for (const value of values) {
    const key = keyOf(value);
    const group = map.get(key);
    if (group) group.push(value);
    else map.set(key, [value]);
  }
  return map;
}
