import { InvalidArgumentError } from 'commander';
import * as z from 'zod/mini';
import { int64Text } from '../contract/int64.ts';
import { describeIssues } from '../contract/schemas.ts';

/** Reads an argument by a schema of the contract, so that the command line refuses just what the service would. */
export function by<Schema extends z.ZodMiniType>(schema: Schema): (text: string) => z.output<Schema> {
  return (text) => {
    const result = z.safeParse(schema, text);
    if (!result.success) throw new InvalidArgumentError(describeIssues(result.error));
    return result.data;
  };
}

export const int64Argument = by(int64Text);

/** A number of seconds: digits, perhaps a fraction. */
export function seconds(min: number): (text: string) => number {
  return (text) => {
    if (!/^\d{1,9}(\.\d{1,3})?$/.test(text) || Number(text) < min) {
      throw new InvalidArgumentError(
        min === 0 ? 'must be a number of seconds' : `must be at least ${min} seconds`,
      );
    }
    return Number(text);
  };
}

/** A whole number within bounds. */
export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    if (!/^\d{1,16}$/.test(text) || Number(text) < min || Number(text) > max) {
      throw new InvalidArgumentError(`must be an integer from ${min} to ${max}`);
    }
    return Number(text);
  };
}
