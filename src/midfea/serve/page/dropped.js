// Files and folders that were dropped or chosen, sorted into classes as `midfea train` sorts a folder.

const IMAGE = /\.(png|apng|jpe?g|jpe|jfif|webp|bmp|dib|gif|tiff?|pgm|ppm|pbm|pnm|jp2|avif)$/i;
const OF_THE_SYSTEM = /^(\.|thumbs\.db$|desktop\.ini$|__macosx$)/i;

/** [{file, path}] of a drop; `path` holds the folders that lead to the file. */
export async function filesOf(transfer) {
  // Entries must be asked for before the first wait: afterwards the browser has forgotten the drop.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: [] }));
  return (await Promise.all(entries.map((entry) => walk(entry, [])))).flat();
}

async function walk(entry, path) {
  if (OF_THE_SYSTEM.test(entry.name)) return [];
  if (entry.isFile) return [{ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path }];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    // A reader hands out a hundred entries at a time.
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    found.push(...(await Promise.all(some.map((each) => walk(each, [...path, entry.name])))).flat());
  }
}

/** The same of files that were chosen, one by one or as a folder. */
export function filesChosen(files) {
  const found = files.map((file) => ({ file, path: file.webkitRelativePath.split("/").slice(0, -1) }));
  return found.filter(({ file, path }) => ![...path, file.name].some((name) => OF_THE_SYSTEM.test(name)));
}

export const isImage = (file) => IMAGE.test(file.name) || file.type.startsWith("image/");

/**
 * Files by class: {classes: Map of name to files, loose: files in no folder, others: files that are no images}.
 *
 * A folder with images in it is a class; a folder of folders holds a class in each of them, with all that
 * lies deeper; a folder with one folder in it is only a wrapping.
 */
export function byClass(found) {
  const classes = new Map();
  const others = [];
  const images = [];
  for (const each of found) {
    // A single file was meant by hand, so the server is to say why it is refused.
    if (each.path.length && !isImage(each.file)) others.push(each.file);
    else images.push(each);
  }
  const loose = images.filter(({ path }) => !path.length).map(({ file }) => file);
  const roots = new Map();
  for (const each of images) if (each.path.length) group(roots, each.path[0], each);
  for (const inside of roots.values()) sort(inside, 0, classes);
  return { classes, loose, others };
}

/** Sort files that share the first `depth` + 1 folders. */
function sort(files, depth, classes) {
  if (files.some(({ path }) => path.length === depth + 1)) {
    for (const { file } of files) group(classes, files[0].path[depth], file);
    return;
  }
  const below = new Map();
  for (const each of files) group(below, each.path[depth + 1], each);
  if (below.size === 1) return sort(files, depth + 1, classes);
  for (const [name, inside] of below) for (const { file } of inside) group(classes, name, file);
}

function group(map, name, value) {
  if (!map.has(name)) map.set(name, []);
  map.get(name).push(value);
}

/** Make an element take drops; `take` gets a promise of the files. */
export function droppable(element, take) {
  let depth = 0; // enter and leave also come from the elements inside
  const over = (on) => element.classList.toggle("over-drop", on);
  const ours = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  element.addEventListener("dragenter", (event) => {
    if (!ours(event)) return;
    event.preventDefault();
    event.stopPropagation();
    depth += 1;
    over(true);
  });
  element.addEventListener("dragover", (event) => {
    if (!ours(event)) return;
    event.preventDefault();
    event.stopPropagation();
    event.dataTransfer.dropEffect = "copy";
  });
  element.addEventListener("dragleave", (event) => {
    event.stopPropagation();
    depth = Math.max(0, depth - 1);
    if (!depth) over(false);
  });
  element.addEventListener("drop", (event) => {
    if (!ours(event)) return;
    event.preventDefault();
    event.stopPropagation();
    depth = 0;
    over(false);
    take(filesOf(event.dataTransfer));
  });
}
