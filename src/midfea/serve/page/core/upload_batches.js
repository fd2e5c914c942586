// Groups of files that one request can carry.

import { bytes } from "./text.js";

const FILES_PER_REQUEST = 20;

/**
 * Files in batches; a file that is too large for any request is refused here, with the reason.
 * @template {{name: string, size: number}} F
 * @param {F[]} files
 * @param {{file_bytes?: number, request_bytes?: number}} limits of the server
 */
export function uploadBatches(files, { file_bytes: fileBytes = 32e6, request_bytes: requestBytes = 64e6 } = {}) {
  /** @type {F[][]} */
  const batches = [];
  /** @type {{name: string, error: string}[]} */
  const refused = [];
  let size = Infinity; // of the last batch
  for (const file of files) {
    if (file.size > fileBytes) {
      refused.push({ name: file.name, error: `${bytes(file.size)}: larger than ${bytes(fileBytes)}, make it smaller first` });
      continue;
    }
    if (size + file.size > requestBytes / 2 || batches.at(-1)?.length === FILES_PER_REQUEST) {
      batches.push([]);
      size = 0;
    }
    batches.at(-1)?.push(file);
    size += file.size;
  }
  return { batches, refused };
}
