"""A pipeline and a grid search over the kernel's length-scale, as with any other estimator.

Usually there is nothing to search: the evidence chooses the length-scales. Here they are held.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sepgp import GPClassifier, kernels


def main(max_iter: int = 50, lengthscales: tuple[float, ...] = (1.0, 3.0, 10.0)) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    classifier = GPClassifier(
        kernel=kernels.Matern32(), n_inducing=30, max_iter=max_iter, random_state=0
    )
    held = classifier.set_params(learn_kernel=False)
    pipeline = make_pipeline(StandardScaler(), PCA(5), held)
    grid = {"gpclassifier__kernel__lengthscale": list(lengthscales)}
    search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=3).fit(X_train, y_train)
    for tried, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        print(f"length-scale {next(iter(tried.values())):>5}: NLL {-score:.3f}")

    learned = pipeline.set_params(gpclassifier__learn_kernel=True).fit(X_train, y_train)
    print(f"test accuracy: searched {search.best_estimator_.score(X_test, y_test):.3f}, ", end="")
    print(f"learned by the evidence {learned.score(X_test, y_test):.3f}")


if __name__ == "__main__":
    main()
