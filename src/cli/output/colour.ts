import { Chalk, type ChalkInstance } from 'chalk';
import type { Context, OutputStream } from '../context.ts';

export const colourModes = ['auto', 'always', 'never'] as const;
export type ColourMode = (typeof colourModes)[number];

/**
 * Colours for a stream. If `--color` is `auto`, a non-empty NO_COLOR disables colours. Otherwise a non-empty
 * FORCE_COLOR decides. If neither variable is set, only a terminal has colours.
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
