// What the server answers, as `/api/openapi.json` and docs/serve.md describe it.

export interface WorkspaceImage {
  id: string;
  class: string;
  name: string;
  width?: number;
  height?: number;
  predicted?: string;
  confidence?: number;
}

export type ListedImage = Required<Pick<WorkspaceImage, "id" | "class" | "name" | "predicted" | "confidence">>;

export interface Disagreements {
  images: ListedImage[];
  reason: string | null; // why there is no list
  checked: number; // labels that would be listed, but a person has called them right
}

export interface Comparison {
  preset: string;
  correct: number;
  other_preset: string;
  other_correct: number;
  images: number;
}

export interface ImagePage {
  total: number;
  images: WorkspaceImage[];
}

export interface Refusal {
  name: string;
  error: string;
  file?: File | false; // only where sending it again makes sense
}

export interface Accuracy {
  value: number | null;
  low: number;
  high: number;
  n: number;
  how: string;
  drawing: string; // HTML
}

export interface Model {
  id: string;
  name: string;
  trained: string;
  opened: boolean;
  classes: string[];
  images: number | null;
  left_out: number;
  series: string;
  seconds: number | null;
  accuracy: Accuracy | null;
  ms_per_image: number | null;
  stale: boolean;
  preset: string;
  fine_tuned: boolean;
  compared: Comparison | null;
  note: string; // what it was trained without
}

export interface Job {
  state: "running" | "done" | "failed" | "cancelled";
  step: string;
  fraction: number;
  seconds_left: number | null;
  error: string | null;
  presets: string[]; // of the phases
  phase: number;
  trained: number; // phases that have ended
}

export interface State {
  version: number;
  classes: { name: string; images: number }[];
  images: number;
  model: Model | null;
  model_error: string | null;
  model_loading: boolean;
  job: Job | null;
  workspace: string;
  limits: { file_bytes: number; request_bytes: number };
  image_endings: string[];
  threshold: number;
  missing: Record<string, string>; // extras that are not installed, each with what to type
}

export interface Prediction {
  predicted: string;
  unsure: boolean;
  belonging: number | null; // how much the image looks like images of the classes
  none_of_these: boolean;
  belonging_text: string;
  probabilities: { class: string; probability: number }[];
  milliseconds: number;
  evidence: string | null;
}

export interface Word {
  caption: string;
  image: string;
}

export interface Explanation {
  class: string;
  evidence: string;
  stages: { name: string; image: string }[];
  words_for: Word[];
  words_against: Word[];
  neurons: { neuron: number; activation: number; class: string }[];
  nearest: WorkspaceImage[];
}

export interface Curve {
  sizes: number[];
  accuracies: number[];
  deviations: number[];
  verdict: string;
}

export interface ClassScores {
  class: string;
  images: number;
  recall: number | null;
  low: number;
  high: number;
  precision: number | null;
}

export interface Inspection {
  classes: string[];
  confusion: number[][];
  changed: number; // labels, since the training
  gone: number; // images, since the training
  disagreements: Disagreements;
  pairs: { class: string; predicted: string; images: number; share: number }[];
  per_class: ClassScores[];
  neurons: { means: number[][] } | null;
  curve: Curve | null;
  parts: Record<"confusion" | "pairs" | "per_class" | "decisions" | "filters", string> & { curve?: string; neurons?: string }; // HTML
}

/** An image to classify: a file of the user's, or an image of the workspace. */
export interface Question {
  file?: File;
  id?: string;
  name?: string;
}

/** Images to go through one by one. */
export interface ImageSource {
  count(): number;
  at(index: number): Promise<WorkspaceImage | null>;
  refresh(): Promise<void>;
}
