import type { Suite } from '../bench.ts';
import { add } from './add.ts';
import { listAll } from './list-all.ts';
import { million } from './million.ts';
import { packaged } from './package.ts';
import { postgres } from './postgres.ts';
import { serve } from './serve.ts';
import { startUp } from './start-up.ts';

export const suites: ReadonlyMap<string, Suite> = new Map([
  ['start-up', startUp],
  ['serve', serve],
  ['add', add],
  ['million', million],
  ['list-all', listAll],
  ['postgres', postgres],
  ['package', packaged],
]);
