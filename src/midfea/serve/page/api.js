// Every request to the server. Whatever goes wrong comes out as an Error whose message a person can read.

const SILENT = "The server does not answer. Is “midfea serve” still running?";

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status; // 0: no answer at all
  }
}

async function call(method, path, { json, form, query, signal, as = "json" } = {}) {
  const address = query ? `${path}?${new URLSearchParams(query)}` : path;
  const options = { method, signal };
  if (json !== undefined) {
    options.body = JSON.stringify(json);
    options.headers = { "Content-Type": "application/json" };
  } else if (form) {
    options.body = form;
  }
  let response;
  try {
    response = await fetch(`api/${address}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(SILENT, 0);
  }
  if (!response.ok) throw new ApiError(await reason(response), response.status);
  if (as === "response") return response;
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch {
    throw new ApiError(SILENT, 0); // it went away in the middle of its answer
  }
}

async function reason(response) {
  try {
    const told = (await response.json()).error;
    if (typeof told === "string" && told) return told;
  } catch {
    // Not ours: a proxy's page, say.
  }
  return `The server refused this (${response.status}).`;
}

function formOf(field, files) {
  const form = new FormData();
  for (const file of files) form.append(field, file, file.name);
  return form;
}

const part = encodeURIComponent;

/** What to classify: a file of the user's, or an image of the workspace by its id. */
const asked = ({ file, id }, query) => (file ? { query, form: formOf("file", [file]) } : { query: { ...query, id } });

export const api = {
  state: (signal) => call("GET", "state", { signal }),
  makeClass: (name) => call("POST", "classes", { json: { name } }),
  renameClass: (name, to) => call("PATCH", `classes/${part(name)}`, { json: { name: to } }),
  deleteClass: (name) => call("DELETE", `classes/${part(name)}`, { query: { with_images: true } }),
  images: (name, offset, limit) => call("GET", "images", { query: { class: name, offset, limit } }),
  upload: (name, files, signal) =>
    call("POST", "images", { query: { class: name }, form: formOf("files", files), signal }),
  move: (id, to) => call("PATCH", `images/${part(id)}`, { json: { class: to } }),
  remove: (id) => call("DELETE", `images/${part(id)}`),
  file: async ({ id, name }) => {
    const response = await call("GET", `images/${part(id)}/file`, { as: "response" });
    const type = response.headers.get("Content-Type") ?? "image/png";
    return new File([await response.blob()], name ?? `${id}.${type.split("/")[1]}`, { type });
  },
  train: (settings) => call("POST", "train", { json: settings }),
  cancel: () => call("DELETE", "train"),
  classify: (what, explain, signal) => call("POST", "classify", { ...asked(what, { explain }), signal }),
  explain: (what, name) => call("POST", "explain", asked(what, { class: name })),
  inspect: () => call("GET", "inspect"),
  cell: (name, answer, offset, limit) => call("GET", "inspect/cell", { query: { class: name, answer, offset, limit } }),
  download: (what) => call("GET", `download/${what}`, { as: "response" }),
  openModel: (file) => call("POST", "open/model", { form: formOf("file", [file]) }),
  openImages: (file) => call("POST", "open/images", { form: formOf("file", [file]) }),
};

export const fileUrl = (id) => `api/images/${part(id)}/file`;
export const thumbnailUrl = (id) => `api/images/${part(id)}/thumbnail`;
