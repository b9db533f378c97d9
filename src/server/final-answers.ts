import type { Errand } from './errand.ts';
import type { Answer } from './handlers.ts';

const MAX_TARGETS = 256;
const MAX_BODY_LENGTH = 2 ** 14;

/** What was asked for, and what it got, if it was asked for again. */
type Asked = Pick<Errand, 'operation'> & { answer: Answer | undefined };

/**
 * Remembers answers that are the same whenever they are asked for, by their request target: those of the last targets
 * that were asked for twice. Who walks through all pages asks once for each, and must not fill the memory with them.
 */
export class FinalAnswers {
  #asked = new Map<string, Asked>();

  get({ operation, target }: Errand): Answer | undefined {
    const asked = this.#asked.get(target);
    return asked?.operation === operation ? asked.answer : undefined;
  }

  /** Takes notice of an answer: nothing comes of it where it is not final, or large. */
  add({ operation, target }: Errand, answer: Answer): void {
    if (!answer.isFinal || answer.body.length > MAX_BODY_LENGTH) return;
    const asked = this.#asked.get(target);
    if (asked?.operation === operation) {
      asked.answer = answer;
      return;
    }
    if (this.#asked.size === MAX_TARGETS) this.#asked.delete(this.#asked.keys().next().value ?? '');
    this.#asked.set(target, { operation, answer: undefined });
  }
}
