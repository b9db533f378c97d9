import { readFileSync } from 'node:fs';

/** The animals of the file that the command names. */
export const { pets: animals } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
export const authorization = 'Bearer bench';
