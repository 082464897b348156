// Sequences: what is being moved, what it waits for, and what has ended.

import { fill } from "../parts/dom.js";
import { SequenceHistory } from "./sequences_history.js";
import { listPart } from "./sequences_list.js";
import { onePart } from "./sequences_one.js";

const NUMBER = /^\d{1,15}$/;

export const view = {
  title: "Sequences",
  refreshS: 2,
  mount(root, context) {
    const history = new SequenceHistory(context.api);
    let shown = null;
    let part = null;

    return {
      async show(moment) {
        const wanted = NUMBER.test(moment.params.id ?? "") ? Number(moment.params.id) : null;
        if (part === null || wanted !== shown) {
          shown = wanted;
          part = wanted === null ? listPart(context, history) : onePart(context, history, wanted);
          fill(root, part.element);
        }
        await part.show(moment);
      },
    };
  },
};
