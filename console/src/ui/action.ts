import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { toast } from './toast.tsx';

/**
 * A change of something. `changes` names the lists that are out of date afterwards; `done` is said to the
 * reader.
 */
export function useAction<Input, Output>(options: {
  run(input: Input): Promise<Output>;
  readonly changes?: readonly string[];
  readonly done?: string | ((output: Output) => string) | undefined;
  /** Takes the change back; offered with `done`. */
  undo?(input: Input): Promise<unknown>;
  onDone?(output: Output, input: Input): void;
}) {
  const client = useQueryClient();
  const refresh = (): void => {
    for (const name of options.changes ?? []) void client.invalidateQueries({ queryKey: [name] });
  };
  return useMutation({
    mutationFn: options.run,
    onSuccess: (output, input) => {
      refresh();
      const { undo } = options;
      const takeBack = () => {
        undo?.(input).then(
          () => {
            refresh();
            toast('Taken back.');
          },
          (error: unknown) => toast(error instanceof Error ? error.message : 'It could not be taken back.'),
        );
      };
      const { done } = options;
      const said = typeof done === 'function' ? done(output) : done;
      if (said !== undefined) toast(said, undo === undefined ? null : takeBack);
      options.onDone?.(output, input);
    },
  });
}

/** `onSubmit` of a form that is sent by script. */
export const onSubmit =
  (then: () => void) =>
  (event: FormEvent): void => {
    event.preventDefault();
    then();
  };
