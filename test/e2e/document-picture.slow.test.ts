import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { drawPicture, PICTURE } from '../../.config/picture.ts';
import { hasTerminal } from '../helpers/pseudo-terminal.ts';

test.skipIf(!hasTerminal())(
  'the picture in the README shows the current output of the program (npm run picture redraws it)',
  async () => expect((await drawPicture()) === readFileSync(PICTURE, 'utf8')).toBe(true),
);
