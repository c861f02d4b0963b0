import { ApiError } from '../../../shared/errors/api-error.ts';

/** The ApiError that the call throws. Fails the test when it returns, or throws anything else. */
export function refusal(call: () => unknown): ApiError {
  let returned: unknown;
  try {
    returned = call();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error(`expected an ApiError, but the call returned ${JSON.stringify(returned)}`);
}
