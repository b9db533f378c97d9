import { targetLabel } from '../connection/connect.ts';
import { CliError } from '../core/errors.ts';
import { formatCount } from '../output/text.ts';
import { readProfile } from '../profiles/files.ts';
import type { Connection } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { canAsk, confirm } from '../prompts/prompt.ts';

/**
 * Asks at a terminal before rows are sent to the service of profile prod, because animals cannot be removed
 * again. Returns whether the user was asked. With `isPiped`, the rows came from a pipe, so standard input cannot be used for the answer.
 *
 * @throws CliError if the answer is no
 */
export async function confirmProduction(
  context: CommandContext,
  connection: Connection,
  { rows, isPiped }: { rows: number; isPiped: boolean },
): Promise<boolean> {
  if (!isProduction(context, connection)) return false;
  const terminal = isPiped ? context.openTerminal() : undefined;
  try {
    const asking = { ...context, stdin: terminal ?? context.stdin };
    if (!canAsk(asking)) return false;
    if (await confirm(asking, `Add ${formatCount(rows, 'row')} at ${targetLabel(connection)}?`)) return true;
  } finally {
    terminal?.destroy();
  }
  throw new CliError('not confirmed; no row was sent', {
    code: 'declined',
    hint: 'to try the file first, use --dry-run or --profile staging; to skip the question, add --yes',
  });
}

/** Whether the rows go to the service of profile prod, whichever profile or variable names it. */
function isProduction(context: CommandContext, { keySource, baseUrl }: Connection): boolean {
  if (keySource === 'profile prod') return true;
  try {
    const prod = readProfile(context, 'prod');
    return prod !== undefined && serviceOf(prod.baseUrl) === serviceOf(baseUrl);
  } catch {
    // The command does not need the profile, so a damaged one does not matter.
    return false;
  }
}

/** The same text for all base URLs of a service, with http and with https. */
function serviceOf(baseUrl: string): string {
  const { hostname, port, pathname } = new URL(baseUrl);
  return `${hostname.replace(/\.$/, '')}:${port}${pathname.replace(/\/$/, '')}`;
}
