import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { drawPicture, PICTURE } from '../../.config/picture.ts';
import { hasTerminal } from '../helpers/readme-terminal.ts';

test.skipIf(!hasTerminal())(
  'the picture shows what the program says today; if not, and it is meant to: npm run picture',
  async () => expect(await drawPicture()).toBe(readFileSync(PICTURE, 'utf8')),
);
