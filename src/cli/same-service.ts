import type { Runtime } from './command.ts';
import { shellWords } from './output/shell-words.ts';

/** A command to the service that this one was sent to, as it is typed. */
export function sameService({ globals: { profile, baseUrl }, context }: Runtime, command: string): string {
  const words = ['pets', command];
  if (profile !== undefined) words.push('--profile', profile);
  if (baseUrl !== undefined) words.push('--base-url', baseUrl);
  return shellWords(words, context.platform);
}
