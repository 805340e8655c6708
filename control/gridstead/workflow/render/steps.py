# SPDX-License-Identifier: Apache-2.0
"""Renders each step as one or more shell functions. Function ``step_NUMBER`` runs the whole step.

Function ``step_NUMBER`` calls the functions of nested steps, and returns the step's exit code. No
function depends on ``set -e``. The functions in ``templates/control.sh`` and the other templates
run lists of steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridstead.domain.supervisor.submission import MAX_SCRIPT_BYTES
from gridstead.errors import InvalidInput
from gridstead.workflow.handles import dependencies, find_launches, is_plain_group
from gridstead.workflow.render.container import containers, image_numbers, login_numbers
from gridstead.workflow.render.context import RenderContext, all_steps, function_suffix_of
from gridstead.workflow.render.markers import (
    catch_parts,
    has_no_markers,
    marker_call,
    round_parts,
    secret_texts,
    skip_arguments,
)
from gridstead.workflow.render.network import tunnel_files
from gridstead.workflow.render.run import run_function
from gridstead.workflow.render.shell_text import fill, quote, too_large
from gridstead.workflow.rounds import rounds_at_once
from gridstead.workflow.schema import (
    ForRange,
    ResolvedUse,
    Step,
    StepFor,
    StepUse,
    Workflow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedSteps:
    """Steps as shell text.

    Attributes:
        functions: The functions of the steps.
        call: The command that runs the steps in order.
    """

    functions: str
    call: str


def render_steps(workflow: Workflow, *, cache: str, markers: bool) -> RenderedSteps:
    """Return the functions of all steps, and the command that runs the job."""
    all_containers = containers(workflow)
    launches = find_launches(workflow.steps)
    context = RenderContext(
        workflow=workflow,
        cache=cache,
        has_markers=markers,
        secret_texts=secret_texts(workflow) if markers else (),
        has_handlers=any(step.catch or step.finally_ for step in all_steps(workflow.steps)),
        image_numbers=image_numbers(all_containers),
        login_numbers=login_numbers(all_containers),
        tunnel_files=tunnel_files(workflow),
        launches=launches,
        rounds_at_once=rounds_at_once(workflow, launches),
    )
    return _render_list(workflow.steps, context, "steps")


def _render_list(
    steps: tuple[Step, ...], context: RenderContext, *names: str, is_plain: bool = False
) -> RenderedSteps:
    """Return a list of steps as shell text.

    Args:
        steps: The steps.
        context: The context of the step that contains the list.
        names: The path of the list in that step, such as ``for``, ``steps``.
        is_plain: Whether the list is a plain group, so its launches may end with the enclosing
            list.
    """
    functions, calls = "", []
    launched: list[str] = []
    list_context = context if is_plain else replace(context, launched=launched)
    for index, step in enumerate(steps):
        step_context = list_context.step(index, *names)
        functions += _render_step(step, step_context)
        # A small workflow can have a huge script, so the size is checked before the next step.
        if len(functions) > MAX_SCRIPT_BYTES:
            raise too_large("the script has", len(functions), MAX_SCRIPT_BYTES)
        calls.append(f"step_{step_context.function_suffix}")
        if step.launch:
            outlives = step_context.path in context.launches.outliving
            launches_to_end = list_context.launched if outlives else launched
            launches_to_end.append(
                f"{step_context.function_suffix}:{step.launch.signal_on_parent_step_exit}"
            )
    order = " ".join(calls)
    call = f"in_order {order}"
    if launched:
        call = f"in_order_with_launches '{' '.join(launched)}' {order}"
    return RenderedSteps(functions=functions, call=call)


def _render_step(step: Step, context: RenderContext) -> str:
    """Return a step's functions: its body, its handlers, its launch, and its conditions.

    The outermost function has the name ``step_NUMBER``. Each function calls or launches the next
    inner function.
    """
    function = f"step_{context.function_suffix}"
    is_handled = bool(step.catch or step.finally_)
    is_guarded = bool(step.depends_on or step.if_)
    # The name of the innermost function. It is ``step_NUMBER`` unless other functions enclose it.
    inner = function
    if step.launch:
        inner = f"{function}_launched"
    elif is_guarded:
        inner = f"{function}_unguarded"
    render_inner = _render_handled if is_handled else _render_body
    text = render_inner(step, inner, context)
    if step.launch:
        start = f"{function}_start" if is_guarded else function
        text += fill("launching.sh", function=start, number=context.function_suffix, launched=inner)
        inner = start
    if is_guarded:
        text += _render_guarded(step, inner, context)
    name = f": {step.name}" if step.name else ""
    return f"\n# Step {context.title}{name}\n{text}"


def _wait_lines(step: Step, context: RenderContext) -> str:
    """Return the lines that wait for the launched steps of the step's handles."""
    waits = ""
    for item_path, _ in dependencies(step, context.path):
        launch_path = context.launches.awaited[item_path]
        assert launch_path, "broken_rules() reports a launch for which the step cannot wait"
        waits += f"  await {function_suffix_of(launch_path)} || return\n"
    return waits


def _render_guarded(step: Step, inner: str, context: RenderContext) -> str:
    """Return the function that waits for handles, checks the condition, and calls ``inner``."""
    function = f"step_{context.function_suffix}"
    waits = _wait_lines(step, context)
    if not step.if_:
        return fill("guarded.sh", function=function, waits=waits, inner=inner)
    # run_if() reads 10 as true, 11 as false, and any other code as an error in the condition.
    script = f"[[ {step.if_} ]] && exit 10; exit 11"
    condition = fill(
        "condition_function.sh",
        function=function,
        outer_variables=context.outer_variables,
        script=quote(script),
    )
    arguments = skip_arguments(step, context)
    call = f"run_if {quote(context.title)} {function}_if {inner}{arguments}"
    return condition + fill("guarded.sh", function=function, waits=waits, inner=call)


def _render_handled(step: Step, function: str, context: RenderContext) -> str:
    body = f"step_{context.function_suffix}_body"
    text = _render_body(step, body, context)
    handler_context = _launch_context(context, step) if step.launch else context
    markers = catch_parts(context)
    catch_part = finally_part = ""
    if step.catch:
        catch = _render_list(step.catch, handler_context, "catch")
        text += catch.functions
        catch_part = fill("catch.sh", call=catch.call, forget=markers["forget"])
    if step.finally_:
        finally_steps = _render_list(step.finally_, handler_context, "finally")
        text += finally_steps.functions
        finally_part = fill("finally.sh", call=finally_steps.call)
    handled_part = fill(
        "handled.sh",
        function=function,
        earlier=markers["earlier"] if step.catch else "",
        body=body,
        catch=catch_part,
        finally_=finally_part,
    )
    return f"{text}\n{handled_part}"


def _render_body(step: Step, function: str, context: RenderContext) -> str:
    """Return the function that runs a step without its handlers, between markers if it has any."""
    if not context.has_markers or has_no_markers(step):
        return _render_work(step, function, context)
    work = f"{function}_work"
    call = marker_call(step, work, context)
    return _render_work(step, work, context) + fill("group.sh", function=function, call=call)


def _render_work(step: Step, function: str, context: RenderContext) -> str:
    if step.run:
        slurm_name = step.name or f"step-{'.'.join(context.parts)}"
        return run_function(function, slurm_name, step.run, context)
    if step.for_:
        return _render_loop(step.for_, function, context)
    if step.launch:
        launch_steps = _render_list(
            step.launch.steps, _launch_context(context, step), "launch", "steps"
        )
        return _render_group(launch_steps, function)
    if step.use:
        return _render_module(step.use, function, context)
    if step.steps:
        return _render_group(
            _render_list(step.steps, context, "steps", is_plain=is_plain_group(step)), function
        )
    return fill("group.sh", function=function, call=":")


def _render_group(inner_steps: RenderedSteps, function: str) -> str:
    group = fill("group.sh", function=function, call=inner_steps.call)
    return f"{inner_steps.functions}\n{group}"


def _render_module(use: StepUse, function: str, context: RenderContext) -> str:
    if not isinstance(use, ResolvedUse):
        raise InvalidInput(f"cannot render the module {use.source}", detail="it was not fetched")
    outer_variables = dict(context.variables)
    # In a module, an input replaces the loop variable of the same name.
    for name in use.inputs:
        outer_variables.pop(name, None)
    module_context = replace(context, variables=outer_variables, in_module=True)
    module_steps = _render_list(use.module.steps, module_context, "use", "module", "steps")
    inner = f"step_{context.function_suffix}_module"
    outputs = " ".join(output.key for output in use.module.outputs)
    words = [quote(use.export_env_as or ""), quote(outputs)]
    words += [quote(f"{name}={value}") for name, value in use.inputs.items()]
    call = f"in_module {inner} {' '.join(words)}"
    return (
        f"{module_steps.functions}\n"
        + fill("group.sh", function=inner, call=module_steps.call)
        + fill("group.sh", function=function, call=call)
    )


def _render_loop(loop: StepFor, function: str, context: RenderContext) -> str:
    variable = f"value_{context.function_suffix}"
    if loop.range:
        name, array = "index", ""
        head = _number_loop_head(loop.range, variable)
    else:
        array_name = f"items_{context.function_suffix}"
        items = " ".join(map(quote, loop.items or ()))
        name, array = "item", f" {array_name}=({items})"
        head = f'for {variable} in "${{{array_name}[@]}}"'
    loop_context = replace(context, variables={**context.variables, name: variable})
    body = _render_list(loop.steps, loop_context, "for", "steps")
    template = "for_parallel.sh" if loop.parallel else "for.sh"
    text = fill(
        template,
        function=function,
        variable=variable,
        items=array,
        head=head,
        call=body.call,
        at_once=context.rounds_at_once.get(context.path, 1),
        **round_parts(loop, context),
    )
    return f"{body.functions}\n{text}"


def _number_loop_head(for_range: ForRange, variable: str) -> str:
    numbers = for_range.numbers()
    start, stop, step = numbers.start, numbers.stop, numbers.step
    sign = "<" if step > 0 else ">"
    return f"for (({variable} = {start}; {variable} {sign} {stop}; {variable} += {step}))"


def _launch_context(context: RenderContext, step: Step) -> RenderContext:
    """Return the context of the steps of a launch."""
    assert step.launch, "the caller checks that the step is a launch"
    return replace(context, signals=context.signals | {step.launch.signal_on_parent_step_exit})
