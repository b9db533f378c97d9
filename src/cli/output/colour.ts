import { Chalk, type ChalkInstance } from 'chalk';
import type { Context, OutputStream } from '../core/context.ts';

export const colourModes = ['auto', 'always', 'never'] as const;
export type ColourMode = (typeof colourModes)[number];

/**
 * Returns the colours for a stream. With `--color auto`, the first of these rules that applies decides:
 * 1. A non-empty NO_COLOR disables colours.
 * 2. A non-empty FORCE_COLOR enables colours, or disables them if its value is `0` or `false`.
 * 3. A terminal has colours, unless TERM is `dumb`. Other streams have none.
 */
export function coloursFor(stream: OutputStream, env: Context['env'], mode: ColourMode): ChalkInstance {
  return new Chalk({ level: hasColour(stream, env, mode) ? 1 : 0 });
}

function hasColour(stream: OutputStream, env: Context['env'], mode: ColourMode): boolean {
  if (mode !== 'auto') return mode === 'always';
  if (env['NO_COLOR']) return false;
  const force = env['FORCE_COLOR'];
  if (force !== undefined && force !== '') return force !== '0' && force !== 'false';
  return stream.isTTY === true && env['TERM'] !== 'dumb';
}
