// Every request to the server. Whatever goes wrong comes out as an Error whose message a person can read.

/** @import { Explanation, ImagePage, Inspection, Prediction, Question, Refusal, State, WorkspaceImage } from "./types.js" */

const NO_ANSWER = "The server does not answer. Is “midfea serve” still running?";

export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} status of HTTP; 0 if there was no answer at all
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/**
 * @typedef {object} Options
 * @property {object} [json] a body
 * @property {FormData} [form] a body
 * @property {Record<string, any>} [query]
 * @property {AbortSignal} [signal]
 */

/**
 * @param {string} method
 * @param {string} path
 * @param {Options} options
 */
async function request(method, path, { json, form, query, signal } = {}) {
  const address = query ? `${path}?${new URLSearchParams(query)}` : path;
  /** @type {RequestInit} */
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
    throw new ApiError(NO_ANSWER, 0);
  }
  if (!response.ok) throw new ApiError(await reason(response), response.status);
  return response;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 */
async function call(method, path, options) {
  const response = await request(method, path, options);
  try {
    return await response.json();
  } catch {
    throw new ApiError(NO_ANSWER, 0); // it went away in the middle of its answer
  }
}

/** @param {Response} response */
async function reason(response) {
  try {
    const { error } = await response.json();
    if (typeof error === "string" && error) return error;
  } catch {
    // Not of this server: the page of a proxy, for example.
  }
  return `The server refused this (${response.status}).`;
}

/**
 * @param {string} field
 * @param {File[]} files
 */
function formOf(field, files) {
  const form = new FormData();
  for (const file of files) form.append(field, file, file.name);
  return form;
}

const part = encodeURIComponent;

/**
 * @param {Question} question
 * @param {Record<string, any>} query
 * @returns {Options}
 */
const asked = ({ file, id }, query) => (file ? { query, form: formOf("file", [file]) } : { query: { ...query, id } });

export const api = {
  /** @returns {Promise<State>} */
  state: () => call("GET", "state"),
  /** @param {string} name */
  makeClass: (name) => call("POST", "classes", { json: { name } }),
  /** @param {string} name @param {string} to */
  renameClass: (name, to) => call("PATCH", `classes/${part(name)}`, { json: { name: to } }),
  /** @param {string} name */
  deleteClass: (name) => call("DELETE", `classes/${part(name)}`, { query: { with_images: true } }),
  /** @param {string} name @param {number} offset @param {number} limit @returns {Promise<ImagePage>} */
  images: (name, offset, limit) => call("GET", "images", { query: { class: name, offset, limit } }),
  /**
   * @param {string} name
   * @param {File[]} files
   * @param {AbortSignal} [signal]
   * @returns {Promise<{accepted: WorkspaceImage[], refused: Refusal[]}>}
   */
  upload: (name, files, signal) =>
    call("POST", "images", { query: { class: name }, form: formOf("files", files), signal }),
  /** @param {string} id @param {string} to @returns {Promise<WorkspaceImage>} */
  move: (id, to) => call("PATCH", `images/${part(id)}`, { json: { class: to } }),
  /** @param {string} id @param {string} name @param {boolean} checked @returns {Promise<WorkspaceImage>} */
  label: (id, name, checked) => call("PATCH", `images/${part(id)}`, { json: { class: name, checked } }),
  /** @param {string} id */
  remove: (id) => call("DELETE", `images/${part(id)}`),
  /** @param {WorkspaceImage} image */
  file: async ({ id, name }) => {
    const response = await request("GET", `images/${part(id)}/file`);
    const type = response.headers.get("Content-Type") ?? "image/png";
    return new File([await response.blob()], name, { type });
  },
  /** @param {{preset: string, neurons: number, finetune: boolean}} settings */
  train: (settings) => call("POST", "train", { json: settings }),
  cancel: () => call("DELETE", "train"),
  /** @param {Question} question @param {boolean} explain @returns {Promise<Prediction>} */
  classify: (question, explain) => call("POST", "classify", asked(question, { explain })),
  /** @param {Question} question @param {string} name @returns {Promise<Explanation>} */
  explain: (question, name) => call("POST", "explain", asked(question, { class: name })),
  /** @returns {Promise<Inspection>} */
  inspect: () => call("GET", "inspect"),
  /** @param {string} name @param {string} predicted @param {number} offset @param {number} limit @returns {Promise<ImagePage>} */
  cell: (name, predicted, offset, limit) =>
    call("GET", "inspect/cell", { query: { class: name, predicted, offset, limit } }),
  /** @param {string} kind */
  download: (kind) => request("GET", `download/${kind}`),
  /** @param {File} file @returns {Promise<{name: string, classes: string[]}>} */
  openModel: (file) => call("POST", "open/model", { form: formOf("file", [file]) }),
  /** @param {File} file @returns {Promise<{accepted: WorkspaceImage[], refused: Refusal[]}>} */
  openImages: (file) => call("POST", "open/images", { form: formOf("file", [file]) }),
};

/** @param {string} id */
export const fileUrl = (id) => `api/images/${part(id)}/file`;
/** @param {string} id */
export const thumbnailUrl = (id) => `api/images/${part(id)}/thumbnail`;
