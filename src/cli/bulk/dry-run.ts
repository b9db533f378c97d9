import { CliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import type { Console } from '../output/console.ts';
import { formatCount } from '../output/format-count.ts';
import { quoteIfBlank } from '../output/sanitize.ts';
import type { Column } from '../output/table.ts';
import { formatMinute } from '../output/time.ts';
import type { PetFile, PetRow } from '../rows/read-file.ts';
import { type Outlook, previewRun, type RunOptions } from './open-run.ts';
import { countToSend } from './plan.ts';
import { addedText, writeJsonArray } from './report.ts';
import { costText } from './settle-rows.ts';

/** The number of rows that a terminal shows as a preview, so that the user can check the columns. */
const ROWS_SHOWN = 5;

/**
 * Reports what the command would do without `--dry-run`, and sends nothing. `target` names the service in messages.
 */
export async function dryRun(
  console: Console,
  input: PetFile,
  options: RunOptions,
  target: string,
): Promise<number> {
  if (console.json) await writeJsonArray(console, input.rows, ({ pet }) => pet);
  try {
    const outlook = await previewRun(input, options);
    // After an earlier run, show no preview, because the first rows of the file are probably not sent again.
    const { added, unknown } = outlook.plan.counts;
    if (console.isTerminal && !console.json && added + unknown === 0) await writeFirst(console, input.rows);
    console.notice(`dry run: ${outlookText(input, outlook, { target, timeZone: console.timeZone })}`);
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    const hint = error.hint === undefined ? '' : `; ${error.hint}`;
    console.notice(`dry run: pets would refuse this file. ${error.message}${hint}`);
  }
  return exitCodes.ok;
}

function outlookText(
  { name, rows }: PetFile,
  { plan, known, sent }: Outlook,
  { target, timeZone }: { target: string; timeZone: () => string },
): string {
  const { added, unknown } = plan.counts;
  const left = countToSend(plan);
  const uncertain = `${formatCount(unknown, 'row')} that may have been added`;
  const doubtful =
    unknown === 0
      ? ''
      : `; would first compare ${uncertain} with the inventory (${costText(plan.rows)}), and add those that were not added`;
  if (known && left === 0) return `nothing to add; ${addedText(plan.rows, timeZone)}${doubtful}`;
  const which = `${left === rows.length ? '' : `${left} of `}${formatCount(rows.length, 'row')}`;
  const run = known && ` (run of ${formatMinute(known.header.startedAt, timeZone())})`;
  const already = added === 0 ? '' : `; ${added} already added${run}`;
  const again = known || sent === 0 ? '' : `, including ${sent} that may already have been added`;
  return `would add ${which} from ${name} at ${target}${already}${doubtful}${again}`;
}

async function writeFirst(console: Console, rows: readonly PetRow[]): Promise<void> {
  const { renderRows } = await import('../output/table.ts');
  const columns: Column[] = [
    { head: 'LINE', align: 'right' },
    { head: 'NAME', flexible: true },
    { head: 'CATEGORY', align: 'right' },
    { head: 'STATUS' },
  ];
  const cells = rows
    .slice(0, ROWS_SHOWN)
    .map(({ line, pet }) => [`${line}`, quoteIfBlank(pet.name), `${pet.categoryId}`, pet.status ?? '']);
  const more = rows.length - cells.length;
  const rest = more === 0 ? '' : `${console.colours.dim(`… and ${formatCount(more, 'row')} more`)}\n`;
  await console.write(renderRows(console, columns, cells) + rest);
}
