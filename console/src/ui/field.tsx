import { type InputHTMLAttributes, type ReactNode, useId } from 'react';
import { useFieldFault } from './form.tsx';

interface Labelled {
  readonly label: string;
  readonly hint?: string | undefined;
  /** A fault found by the page itself. */
  readonly fault?: string | null | undefined;
  /** The field's name in the service's errors, which are shown here. */
  readonly param?: string | undefined;
  /** Read aloud only, where the place says what it is. */
  readonly isLabelHidden?: boolean;
}

function useLabelled({ label, hint, fault: own, param, isLabelHidden = false }: Labelled) {
  const id = useId();
  const said = useFieldFault(param);
  const fault = own ?? said;
  const described = [hint === undefined ? null : `${id}-hint`, fault ? `${id}-fault` : null].filter(Boolean);
  return {
    control: {
      id,
      className: 'input',
      ...(described.length === 0 ? {} : { 'aria-describedby': described.join(' ') }),
      ...(fault ? { 'aria-invalid': true as const } : {}),
    },
    around: (control: ReactNode) => (
      <div className="field">
        <label htmlFor={id} {...(isLabelHidden ? { className: 'sr-only' } : {})}>
          {label}
        </label>
        {control}
        {hint === undefined ? null : (
          <span className="hint" id={`${id}-hint`}>
            {hint}
          </span>
        )}
        {fault ? (
          <span
            id={`${id}-fault`}
            // What scrolls must be reachable by keyboard.
            {...(fault.includes('\n') ? { className: 'fault code', tabIndex: 0 } : { className: 'fault' })}
          >
            {fault}
          </span>
        ) : null}
      </div>
    ),
  };
}

type Native = Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange' | 'value'>;

export function TextField({
  label,
  hint,
  fault,
  param,
  value,
  onChange,
  ...native
}: Labelled & Native & { readonly value: string; onChange(value: string): void }): ReactNode {
  const { control, around } = useLabelled({ label, hint, fault, param });
  return around(
    <input
      type="text"
      autoComplete="off"
      {...native}
      {...control}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />,
  );
}

export function TextArea({
  label,
  hint,
  fault,
  param,
  value,
  onChange,
  isCode = false,
  rows,
}: Labelled & {
  readonly value: string;
  onChange(value: string): void;
  readonly isCode?: boolean;
  readonly rows?: number;
}): ReactNode {
  const { control, around } = useLabelled({ label, hint, fault, param });
  return around(
    <textarea
      {...control}
      className={isCode ? 'input code' : 'input'}
      spellCheck={!isCode}
      {...(rows === undefined ? {} : { rows })}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />,
  );
}

export function Select({
  label,
  hint,
  fault,
  param,
  isLabelHidden = false,
  value,
  onChange,
  options,
}: Labelled & {
  readonly value: string;
  onChange(value: string): void;
  readonly options: readonly (readonly [value: string, label: string])[];
}): ReactNode {
  const { control, around } = useLabelled({ label, hint, fault, param, isLabelHidden });
  return around(
    <select {...control} value={value} onChange={(event) => onChange(event.target.value)}>
      {options.map(([each, text]) => (
        <option key={each} value={each}>
          {text}
        </option>
      ))}
    </select>,
  );
}

export function Check({
  label,
  hint,
  checked,
  onChange,
  disabled = false,
}: {
  readonly label: ReactNode;
  readonly hint?: string;
  readonly checked: boolean;
  onChange(checked: boolean): void;
  readonly disabled?: boolean;
}): ReactNode {
  return (
    <label className="check">
      <input
        type="checkbox"
        checked={checked}
        disabled={disabled}
        onChange={(event) => onChange(event.target.checked)}
      />
      <span>
        {label}
        {hint === undefined ? null : <span className="soft small"> {hint}</span>}
      </span>
    </label>
  );
}
