// Replaces the string-width of cli-table3 in tests, as .config/build.ts does in the program.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const path = createRequire(require.resolve('cli-table3')).resolve('string-width');
require(path);
const loaded = require.cache[path];
if (loaded) loaded.exports = require('./replaced/string-width.cjs');
