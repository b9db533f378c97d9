import { environmentVariables } from './environment.ts';
import { exitCodeMeanings } from './errors/exit-codes.ts';
import { wrapText } from './output/wrap.ts';

/** What `pets help` has besides commands, each with its page. */
export const topics: Readonly<Record<string, (columns: number) => string>> = {
  'exit-codes': (columns) =>
    exitCodeMeanings
      .map(([code, meaning]) => {
        const lines = wrapText(meaning, columns - 5, 0).replaceAll('\n', `\n${' '.repeat(5)}`);
        return `${String(code).padStart(3)}  ${lines}\n`;
      })
      .join(''),
  environment: (columns) =>
    environmentVariables
      .map(([name, meaning]) => `${wrapText(name, columns, 0)}\n${wrapText(`    ${meaning}`, columns, 4)}\n`)
      .join(''),
};
