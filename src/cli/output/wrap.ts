import { wrapToWidth } from './width.ts';

/** A command as our messages write it: `pets list --status sold`. Broken over lines it could not be copied. */
const COMMAND =
  /\bpets [a-z]+(?: [\w.-]+(?= [-<]))?(?: (?:--?[\w-]+(?:[ =][^\s;,.]+)?|<[^>]+>|"[^"]*"|\d+))*/g;

const NO_BREAK = '\u00a0';

/** Lines as a terminal of this width shows them: broken between words, each further one indented, commands whole. */
export function wrapText(text: string, columns: number, indent: number): string {
  const kept = text.replace(COMMAND, (command) => command.replaceAll(' ', NO_BREAK));
  return kept
    .split('\n')
    .flatMap((line) => wrapToWidth(line, columns, indent))
    .join('\n')
    .replaceAll(NO_BREAK, ' ');
}
