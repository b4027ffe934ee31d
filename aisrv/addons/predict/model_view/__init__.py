"""A model as a reader wants to see it: tensors, operators, times, what each engine says, and a drawing."""

from aisrv.addons.predict.model_view.view import ModelView, OperatorView, Place, TensorView, view_model

__all__ = ["ModelView", "OperatorView", "Place", "TensorView", "view_model"]
