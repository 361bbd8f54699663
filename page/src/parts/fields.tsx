interface SwitchProps {
  label: string;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
}

export function Switch({ label, isOn, onChange }: SwitchProps) {
  return (
    <label class="switch">
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.currentTarget.checked)} />
      {label}
    </label>
  );
}

interface NumberProps {
  label: string;
  value: number | null;
  least: number;
  most: number;
  isOptional?: boolean;
  onChange: (value: number | null) => void;
}

export function NumberField({ label, value, least, most, isOptional = false, onChange }: NumberProps) {
  return (
    <label class="field is-short">
      <span>{label}</span>
      <input
        type="number"
        min={least}
        max={most}
        required={!isOptional}
        value={value ?? ""}
        onInput={(event) => {
          const given = event.currentTarget.valueAsNumber;
          if (given >= least && given <= most) onChange(Math.round(given));
          else if (isOptional && event.currentTarget.value === "") onChange(null);
        }}
      />
    </label>
  );
}
