// A tool's input as JSON text, for tools whose form cannot be made.
export function mountForm(element, tool) {
  const box = document.createElement("textarea");
  box.className = "input code-input";
  box.rows = 3;
  box.spellcheck = false;
  box.setAttribute("aria-label", `Input of ${tool.name}, as JSON`);
  const error = document.createElement("p");
  error.className = "error";
  error.setAttribute("role", "alert");
  const fields = Object.keys(tool.input_schema?.properties ?? {});
  const form = {
    isSingleShort: false,
    value: () => {
      try {
        const value = JSON.parse(box.value || "{}");
        error.textContent = "";
        return value;
      } catch (problem) {
        error.textContent = problem.message;
        throw problem;
      }
    },
    set: (value) => (box.value = JSON.stringify(value, null, 2)),
    showErrors: (errors) => (error.textContent = errors.map((one) => `${one.path.join(".") || "input"}: ${one.message}`).join("; ")),
    focus: () => (fields.length ? box : element.closest("form").querySelector("[data-call]")).focus(),
  };
  box.value = fields.length ? JSON.stringify(Object.fromEntries(fields.map((name) => [name, ""])), null, 2) : "{}";
  element.replaceChildren(...(fields.length ? [box, error] : [error]));
  return form;
}
