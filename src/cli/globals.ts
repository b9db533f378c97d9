import { type ColourMode, colourModes } from './output/colour.ts';
import type { ProfileName } from './profiles/profile.ts';

/** The options that every command takes, before or after its name. */
export type Globals = {
  profile?: ProfileName;
  baseUrl?: string;
  json: boolean;
  /** Seconds that one request may wait in all; 0 never waits. */
  maxWait: number;
  /** Seconds for one attempt. */
  timeout: number;
  retry: boolean;
  debug: boolean;
  color: ColourMode;
  /** False with `--no-input`: nothing is ever asked. */
  input: boolean;
};

/** What the globals are before any argument is read, so that an error among the arguments is told in the right form. */
export function firstGlanceAt(argv: readonly string[]): Pick<Globals, 'json' | 'debug' | 'color'> {
  const end = argv.indexOf('--');
  const own = end === -1 ? argv : argv.slice(0, end);
  const colour = own
    .map((word, i) => (word === '--color' ? own[i + 1] : word.split('--color=')[1]))
    .findLast((word) => word !== undefined);
  return {
    json: own.includes('--json'),
    debug: own.includes('--debug'),
    color: colourModes.find((mode) => mode === colour) ?? 'auto',
  };
}
