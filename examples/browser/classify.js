// Loads model.onnx, shows the image that is picked, and lists the probabilities of the classes.
import * as ort from "./node_modules/onnxruntime-web/dist/ort.wasm.min.mjs";

const MAX_SIDE = 2048; // pixels: larger photos are reduced by the browser first, to save memory
const status = document.getElementById("status");
const canvas = document.getElementById("photo");

async function start() {
  const file = new Uint8Array(await (await fetch("model.onnx")).arrayBuffer());
  const session = await ort.InferenceSession.create(file, { executionProviders: ["wasm"] });
  const classes = classNames(file);
  status.textContent = "Pick an image: it stays on this machine.";
  document.getElementById("file").addEventListener("change", async (event) => {
    const [picked] = event.target.files;
    if (picked) await show(session, classes, await bitmap(picked));
  });
  const wanted = new URLSearchParams(location.search).get("image"); // index.html?image=photo.png
  if (wanted) await show(session, classes, await bitmap(await (await fetch(wanted)).blob()));
}

// The pixels as they are in the file, turned as the camera says.
const bitmap = (file) => createImageBitmap(file, { colorSpaceConversion: "none" });

async function show(session, classes, image) {
  const begun = performance.now();
  const { data, height, width } = pixelsOf(image);
  const images = new ort.Tensor("uint8", data, [1, height, width, 3]);
  const { probabilities } = await session.run({ images });
  const rows = classes.map((name, i) => [name, probabilities.data[i]]).sort((a, b) => b[1] - a[1]);
  const table = document.getElementById("answers");
  table.replaceChildren(...rows.map(([name, p]) => {
    const row = document.createElement("tr");
    row.insertCell().textContent = name;
    row.insertCell().textContent = `${(100 * p).toFixed(3)} %`;
    return row;
  }));
  status.textContent = `${width}x${height} pixels, ${Math.round(performance.now() - begun)} ms`;
}

// Red, green and blue of each pixel, over white where the image is transparent.
function pixelsOf(image) {
  const factor = Math.min(1, MAX_SIDE / Math.max(image.width, image.height));
  const width = Math.max(1, Math.round(image.width * factor));
  const height = Math.max(1, Math.round(image.height * factor));
  canvas.width = width;
  canvas.height = height;
  canvas.hidden = false;
  const context = canvas.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, width, height);
  context.drawImage(image, 0, 0, width, height);
  const rgba = context.getImageData(0, 0, width, height).data;
  const data = new Uint8Array(3 * width * height);
  for (let i = 0, j = 0; i < rgba.length; i += 4) {
    data[j++] = rgba[i];
    data[j++] = rgba[i + 1];
    data[j++] = rgba[i + 2];
  }
  return { data, height, width };
}

// onnxruntime-web does not hand out a model's metadata: they are read from the file. An ONNX file is a
// message of fields; field 14 holds pairs of key (field 1) and value (field 2).
function classNames(file) {
  const text = new TextDecoder();
  for (const [field, bytes] of fields(file)) {
    if (field !== 14) continue;
    const pair = Object.fromEntries([...fields(bytes)].map(([number, part]) => [number, text.decode(part)]));
    if (pair[1] === "midfea") return JSON.parse(pair[2]).classes.map(String);
  }
  throw new Error("model.onnx was not written by midfea export");
}

function* fields(bytes) {
  let at = 0;
  const number = () => {
    let value = 0, factor = 1, byte;
    do {
      byte = bytes[at++];
      value += (byte & 127) * factor;
      factor *= 128;
    } while (byte & 128);
    return value;
  };
  while (at < bytes.length) {
    const key = number();
    if ((key & 7) === 0) number(); // a plain number: none is needed
    else if ((key & 7) === 2) {
      const length = number();
      yield [key >> 3, bytes.subarray(at, at + length)];
      at += length;
    } else throw new Error("model.onnx is damaged");
  }
}

start().catch((error) => { status.textContent = String(error); });
