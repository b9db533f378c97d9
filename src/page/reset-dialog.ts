import { byId } from './element.ts';
import { count } from './format.ts';
import type { PageContext } from './page-context.ts';
import { createProblem } from './problem.ts';

/** The button that resets the inventory, with its confirmation. Calls `onReset` after a reset. */
export function createResetDialog(context: PageContext, onReset: () => void): void {
  const dialog = byId<HTMLDialogElement>('reset-dialog');
  const confirm = byId<HTMLButtonElement>('reset-confirm');
  const problem = createProblem();
  dialog.querySelector('.buttons')?.before(problem.element);

  byId('reset').addEventListener('click', () => {
    problem.show('');
    dialog.showModal();
  });
  byId('reset-cancel').addEventListener('click', () => dialog.close());
  confirm.addEventListener('click', async () => {
    confirm.disabled = true;
    await problem.during(async () => {
      const { animals } = (await context.send('POST', 'reset')) as { animals: number };
      dialog.close();
      context.announce(`The inventory was reset and has ${count(animals, 'animal')}`);
      onReset();
    });
    confirm.disabled = false;
  });
}
