import type { Errand } from './errand.ts';
import type { Answer } from './handlers.ts';

const MAX_ANSWERS = 128;
const MAX_BYTES = 2 ** 14;

/** Remembers answers that are the same whenever they are asked for again, by their request target: the last of them. */
export class FinalAnswers {
  #known = new Map<string, Pick<Errand, 'operation'> & { answer: Answer }>();

  get({ operation, target }: Errand): Answer | undefined {
    const known = this.#known.get(target);
    return known?.operation === operation ? known.answer : undefined;
  }

  /** Remembers an answer if it is final, and small. */
  add({ operation, target }: Errand, answer: Answer): void {
    if (!answer.isFinal || answer.body.length > MAX_BYTES) return;
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size === MAX_ANSWERS) this.#known.delete(oldest);
    this.#known.set(target, { operation, answer });
  }
}
