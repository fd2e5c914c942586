// Photographs with the webcam, one by one or several a second.

import { openDialog } from "./dialogs.js";
import { button, el, setText, showMessage } from "../core/dom.js";
import { count } from "../core/text.js";

const RECORD_MS = 250; // between two photographs

/** Show what needs a camera where there is one, and keep up with cameras that come and go. */
export async function watchCameras() {
  const look = async () => {
    let hasCamera = false;
    try {
      const devices = await navigator.mediaDevices.enumerateDevices();
      hasCamera = devices.some((device) => device.kind === "videoinput");
    } catch {
      // No camera, or a page from another machine without https.
    }
    document.body.classList.toggle("has-camera", hasCamera);
  };
  navigator.mediaDevices?.addEventListener("devicechange", look);
  await look();
}

/**
 * Open the camera; `take` gets each photograph as a file.
 * @param {string} title
 * @param {(file: File) => void} take
 * @param {{several?: boolean}} options `several`: also offer to record
 */
export function openCamera(title, take, { several = false } = {}) {
  /** @type {MediaStream | null} */
  let stream = null;
  let timer = 0;
  let taken = 0;
  const video = el("video", { autoplay: true, playsinline: true, "aria-label": "What the camera sees" });
  video.muted = true;
  const message = el("p", { class: "message", role: "alert" });
  const status = el("p", { class: "key", role: "status" });
  const shoot = button("Take a photo", photograph, { class: "primary", disabled: true });
  const record = button("Record", () => recording(!timer), { disabled: true, hidden: !several, "aria-pressed": "false" });
  const { dialog } = openDialog(title, {
    kind: "camera",
    body: [video, message, status, el("div", { class: "buttons" }, shoot, record)],
    onclose: () => {
      clearInterval(timer);
      stream?.getTracks().forEach((track) => track.stop());
    },
  });

  async function photograph() {
    if (!video.videoWidth) return;
    const canvas = el("canvas", { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d")?.drawImage(video, 0, 0);
    /** @type {Blob | null} */
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.92));
    if (!blob) return;
    const name = `photo-${new Date().toISOString().replace(/[:.]/g, "-")}.jpg`;
    taken += 1;
    setText(status, `${count(taken, "photo")} taken`);
    take(new File([blob], name, { type: "image/jpeg" }));
    if (!several) dialog.close();
  }

  /** @param {boolean} on */
  function recording(on) {
    clearInterval(timer);
    timer = on ? setInterval(photograph, RECORD_MS) : 0;
    record.setAttribute("aria-pressed", String(on));
    record.textContent = on ? "Stop recording" : "Record";
  }

  (async () => {
    try {
      const video = { width: { ideal: 640 }, height: { ideal: 480 } };
      stream = await navigator.mediaDevices.getUserMedia({ video, audio: false });
    } catch (error) {
      const denied = error.name === "NotAllowedError";
      showMessage(message, denied
        ? "The browser was not allowed to use the camera: allow it beside the address, then try again."
        : `The camera cannot be used: ${error.message}`);
      return;
    }
    if (!dialog.isConnected) return stream.getTracks().forEach((track) => track.stop());
    video.srcObject = stream;
    // People expect a mirror, except of a camera on the back of a phone.
    video.classList.toggle("mirror", stream.getVideoTracks()[0].getSettings().facingMode !== "environment");
    await video.play().catch(() => {});
    shoot.disabled = record.disabled = false;
    shoot.focus();
  })();
}
