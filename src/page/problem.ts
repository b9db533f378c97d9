import { ApiError, ConnectionFailure } from './api.ts';
import { element } from './element.ts';
import { visibleText } from './format.ts';

/** A message about a failed request of a view. */
export function createProblem() {
  const text = element('p', { class: 'problem', role: 'alert', hidden: true });
  const show = (message: string) => {
    if (text.textContent !== message) text.textContent = message;
    text.hidden = message === '';
  };
  return {
    element: text,
    show,
    /** Runs an action, and shows its error. The page as a whole reports a lost connection and a missing token. */
    async during(action: () => Promise<void>): Promise<void> {
      try {
        await action();
        show('');
      } catch (error) {
        if (error instanceof ApiError) show(error.status === 401 ? '' : visibleText(error.message));
        else if (!(error instanceof ConnectionFailure)) throw error;
      }
    },
  };
}
