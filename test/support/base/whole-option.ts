import { InvalidArgumentError } from 'commander';

/** Reads an option of a command that is a whole number. */
export const whole =
  (min: number, max: number = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
    const most = max === Number.MAX_SAFE_INTEGER ? '' : ` to ${max}`;
    throw new InvalidArgumentError(`A whole number from ${min}${most}.`);
  };
